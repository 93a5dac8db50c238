//! The files of a repository in one answer: a packed archive, held against the listing.
//!
//! `.gitattributes` may leave files out of an archive or change them (`export-ignore`, `export-subst`), and an archive
//! does not say so. Only content whose object id is the listed one is taken; the caller asks for the rest one by one.

use std::collections::BTreeMap;
use std::io::Read;

use sha1::Digest as _;

use crate::forge::content::LARGEST_TREE;

/// The files of `wanted` (path to object id) that the packed archive (`.tar.gz`) holds unchanged.
///
/// # Errors
/// When the archive is damaged or unpacks to far more than is ever read; what was read until then is lost.
pub(in crate::forge) fn unpack(
    archive: &[u8],
    wanted: &BTreeMap<String, String>,
) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let plain = flate2::read::GzDecoder::new(archive).take(4 * LARGEST_TREE);
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(plain).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path_bytes();
        // The first folder is the archive's own name.
        let Some(path) = std::str::from_utf8(&path).ok().and_then(|path| path.split_once('/')) else {
            continue;
        };
        let path = path.1.to_owned();
        let Some(id) = wanted.get(&path) else { continue };
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if object_id(&content, id.len()) == *id {
            files.insert(path, content);
        }
    }
    Ok(files)
}

/// The id of a blob with this content: 40 digits in a repository with SHA-1, else SHA-256.
pub(in crate::forge) fn object_id(content: &[u8], n_digits: usize) -> String {
    let header = format!("blob {}\0", content.len());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match n_digits {
        40 => hex(&sha1::Sha1::new().chain_update(&header).chain_update(content).finalize()),
        _ => hex(&sha2::Sha256::new().chain_update(&header).chain_update(content).finalize()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("infra-abc/{path}"), *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn an_object_id_is_gits() {
        assert_eq!(object_id(b"hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4";
        assert_eq!(object_id(b"hello\n", 64), sha256);
    }

    #[test]
    fn only_what_is_listed_and_unchanged_is_taken() {
        let archive =
            packed(&[("a.yaml", b"a: 1\n"), ("b.yaml", b"changed by export-subst\n"), ("more", b"x")]);
        let id = |content: &[u8]| object_id(content, 40);
        let wanted = BTreeMap::from([
            ("a.yaml".to_owned(), id(b"a: 1\n")),
            ("b.yaml".to_owned(), id(b"$Format:%H$\n")),
            ("left-out.yaml".to_owned(), id(b"c: 1\n")),
        ]);
        let files = unpack(&archive, &wanted).unwrap();
        assert_eq!(files, BTreeMap::from([("a.yaml".to_owned(), b"a: 1\n".to_vec())]));
        assert!(unpack(&archive[..archive.len() / 2], &wanted).is_err(), "cut off");
        assert!(unpack(b"no archive", &wanted).is_err());
    }
}
