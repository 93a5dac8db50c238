//! Certificates for servers on the loopback.

use std::path::Path;
use std::process::Command;

/// A certificate authority of two days (`ca.pem`), and a certificate for 127.0.0.1 signed by it (`server.pem`,
/// `server.key`), over those that are there.
pub(crate) fn make(home: &Path) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(home).output();
        let output = output.expect("`openssl` is installed: run `tests/run`");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(&format!("{key} -keyout ca.key -out ca.pem -subj /CN=test-authority"));
    openssl(&format!(
        "{key} -keyout server.key -out server.pem -subj /CN=localhost -CA ca.pem -CAkey ca.key \
         -addext subjectAltName=IP:127.0.0.1,DNS:localhost -addext basicConstraints=critical,CA:FALSE \
         -addext extendedKeyUsage=serverAuth"
    ));
}
