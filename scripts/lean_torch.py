#!/usr/bin/env python3
"""Puts the newest PyTorch that pip brings into a venv, without the CUDA libraries that it pulls in.

    lean_torch.py VENV

Under the simulated card (python/simcuda) nobody calls cuBLAS, NCCL and the like; but PyTorch's libraries name them, and
are not loaded without. So each gets a library with its name that has the symbols that PyTorch wants, and ends the process
when one is called. cuDNN is the real one, since it says how much memory convolutions work in. That is 1.1 GB to load
instead of 3. Needs readelf, nm and a C compiler. Prints the Python of the venv; a venv that is complete is left as it is.
"""

import email.parser
import glob
import os
import re
import subprocess
import sys
import tempfile

PURE = ["typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "numpy"]
BODY = """int dprintf(int, const char*, ...);
void _exit(int);
static void refuse(const char* name) {
  dprintf(2, "%s was called: it is a stand-in without a body (scripts/lean_torch.py)\\n", name);
  _exit(3);
}
"""
OF_NVIDIA = re.compile(r"lib(cu|nv|nccl)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pip_install(python, *packages):
    options = ["--quiet", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([python, "-m", "pip", "install", *options, *packages], check=True, stdout=sys.stderr)


def cudnn_of(site):
    """The requirement that PyTorch states for cuDNN, such as nvidia-cudnn-cu13==9.26.0.51."""
    (metadata,) = glob.glob(os.path.join(site, "torch-*.dist-info", "METADATA"))
    with open(metadata) as file:
        stated = email.parser.Parser().parse(file).get_all("Requires-Dist")
    return next(r.split(";")[0].strip() for r in stated if r.startswith("nvidia-cudnn"))


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))


def undefined(library):
    """(name, version or "") of what a library wants from others."""
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version


def defined(library):
    return {line.split()[-1].partition("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()}


def versions_of(library):
    """(library, version) of the versions of symbols that a library wants."""
    source = None
    for line in output("readelf", "-V", "-W", library).splitlines():
        if found := re.search(r"File: (\S+)", line):
            source = found[1]
        elif source and (found := re.search(r"Name: (\S+) +Flags", line)):
            yield source, found[1]


def write_stand_in(path, names_by_version):
    """`names_by_version`: "" for symbols without one. The library bears the file's name."""
    names = set().union(*names_by_version.values())
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "versions")
        with open(script, "w") as file:
            for version, members in names_by_version.items():
                file.write(f"{version} {{ {''.join(name + '; ' for name in sorted(members))}}};\n" if version else "")
        options = [f"-Wl,-soname,{os.path.basename(path)}"]
        if any(names_by_version):
            options.append(f"-Wl,--version-script={script}")
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-fno-builtin", *options, "-x", "c", "-", "-o", path],
                       input=BODY + "".join(f"void {name}(void) {{ refuse(\"{name}\"); }}\n" for name in sorted(names)),
                       text=True, check=True)


def write_stand_ins(site):
    """One library for each of NVIDIA's that is not there; NCCL's has the symbols that nobody gives a version."""
    folder = os.path.join(site, "nvidia", "cu13", "lib")
    os.makedirs(folder, exist_ok=True)
    libraries = glob.glob(os.path.join(site, "torch", "lib", "*.so"))
    absent = {name: {} for library in libraries for name in needed(library) if OF_NVIDIA.match(name)
              if not glob.glob(os.path.join(site, "nvidia", "*", "lib", name))}
    wanted = {}  # by version
    for library in libraries:
        for name, version in undefined(library):
            wanted.setdefault(version, set()).add(name)
        for source, version in versions_of(library):
            if source in absent:
                absent[source][version] = wanted.setdefault(version, set())
    inside = set().union(*map(defined, libraries))
    bare = {name for name in wanted[""] - inside if re.match(r"(cu[A-Z]|cusparse|nccl|nvshmem)", name)}
    absent["libnccl.so.2"] = {"": bare}
    for name, names_by_version in absent.items():
        write_stand_in(os.path.join(folder, name), names_by_version)


def main():
    venv = os.path.abspath(sys.argv[1])
    python = os.path.join(venv, "bin", "python3")
    done = os.path.join(venv, "complete")
    if not os.path.exists(done):
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip_install(python, "torch", *PURE)
        site = output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        pip_install(python, cudnn_of(site))
        write_stand_ins(site)
        open(done, "w").close()
    print(python)


if __name__ == "__main__":
    main()
