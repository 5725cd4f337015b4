#!/usr/bin/env python3
"""Help texts, README and docs use the words of the field. With the binary as argument, its help is read, too."""
import pathlib
import re
import subprocess
import sys

# What is not said, where it is meant as a term, and what is said instead.
WORDS = [
    (r"\b(taken|batch|step|samples) in parts\b|\bparts of (a|the) batch\b|--no-parts|batch-norm-parts", "micro-batches"),
    (r"\bin slices\b|\d slices\b|\bSlices\.\*\*", "batch chunks"),
    (r"\bas (it lies|they lie)\b|\bhow (it lies|they lie)\b|\blies? in blocks\b|\bbuffers? lies?\b", "layout, offset, in place"),
    (r"\b(of|in|as) halves\b|\bhalves are\b", "fp16/bf16"),
    (r"\bmatrix units?\b", "AMX tiles"),
    (r"\blent (memory|heap)\b", "scoped allocator"),
    (r"\b(images?|fill(ed)?) (of|with) noise\b", "random fill"),
    (r"\bspot memory\b|\*\*Spots\b|\bfullest moment\b", "placement history, peak"),
    (r"\bheld through\b|\bgiven up and made\b", "resident, evicted"),
    (r"\bwander(s|ing)?\b|\brun_late\b|\brefuse_(norms|attention|activations)\b", "annealing, sink_ops, fuse"),
    (r"\bcoded state\b|\bstate in codes\b", "quantized state"),
    (r"\bstash(ed|es)?\b", "spill store"),
    (r"\bmade[- ]up (data|weights)\b", "synthetic data"),
    (r"--(check-)?lock\b", "--manifest"),
    (r"\bculprits?\b", "top allocator"),
    (r"--rate\b(?!s)", "--lr"),
    (r"`(Use|OpUse|Call)`|\b(Use|OpUse)::|`kernels::Tensor`", "KernelCall, OpCall, TensorDesc"),
]
ALLOWED = {("help of train", "--rate")}  # still read


def texts(binary):
    root = pathlib.Path(__file__).resolve().parent.parent
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        yield str(path.relative_to(root)), path.read_text()
    if binary is None:
        return
    def help_of(*verb):
        return subprocess.run([binary, *verb, "--help"], capture_output=True, text=True, check=True).stdout
    whole = help_of()
    yield "help", whole
    verbs = re.findall(r"^  ([a-z]+) +\S", whole.split("Subcommands:")[-1].split("SUBCOMMANDS:")[-1], re.M)
    if len(verbs) < 8:
        sys.exit(f"found the verbs {verbs} in `plimsoll --help`, expected all")
    for verb in verbs:
        yield f"help of {verb}", help_of(verb)


def main():
    found = 0
    for name, text in texts(sys.argv[1] if len(sys.argv) > 1 else None):
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, instead in WORDS:
                for match in re.finditer(pattern, line):
                    if (name, match.group(0)) in ALLOWED:
                        continue
                    print(f"{name}:{number}: {match.group(0)!r}: say {instead}")
                    found += 1
    if found:
        sys.exit(f"{found} words that are not the field's")


main()
