#!/usr/bin/env python3
"""Records what must not change when code moves: of every built-in model at a small size, the losses of three steps, the
bytes of the arena and a hash of the plan, over precisions, optimizers, thread counts and ways to fit a budget.

  record_steps.py record FILE --binary build/release/cli/plimsoll [--like OLDER] [--models mlp,lenet] [...]
  record_steps.py compare OLDER NEWER

Record both binaries on one machine. --like takes sizes and budgets from an older record, so that both are asked the same;
--cache shares the times that plans are made by. Options that a binary spells otherwise are looked up in its help. A record
goes on where it was left when FILE is there already. compare prints every difference and exits with 1 when there is one.
"""
import argparse
import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 3
SMALL_BYTES = 256 << 20  # of a step, where a smaller batch can do that
MOST_BYTES = 3 << 30  # larger models are left out
FORMS = ("whole", "recompute", "micro-batches", "spill")

# The options that each form is asked for with; the first name that the binary's help has, or none where that is allowed.
NAMES = {
    "--no-grad-accumulation": ["--no-grad-accumulation", "--no-micro-batches", "--no-parts", "--whole"],
    "--no-recompute": ["--no-recompute", None],
    "--time-limit": ["--time-limit", None],
}
OPTIONS_OF_FORM = {
    "whole": [],
    "recompute": ["--no-grad-accumulation"],
    "micro-batches": ["--no-recompute"],
    "spill": ["--no-grad-accumulation", "--spill-dir"],
}
# Keys of JSON that had another name once.
KEYS = {
    "smallest_budget_bytes": ["smallest_budget_bytes", "smallest_bytes"],
    "micro_batches": ["micro_batches", "parts"],
}


class Binary:
    def __init__(self, path, cache):
        self.path = str(pathlib.Path(path).resolve())
        self.environment = {**os.environ, "XDG_CACHE_HOME": cache, "GOMP_SPINCOUNT": "1000"}
        self.help = {verb: self.run([verb, "--help"])[1] for verb in ("plan", "train")}

    def run(self, arguments):
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, env=self.environment)
        return done.returncode, done.stdout, done.stderr

    def json(self, arguments):
        """The JSON that was printed, or {"failed": why}. A refusal is JSON, too."""
        status, out, err = self.run([*arguments, "--json"])
        try:
            return json.loads(out[out.index("{"):])
        except ValueError:
            return {"failed": f"status {status}: {err.strip().splitlines()[-1] if err.strip() else 'no output'}"}

    def option(self, verb, name):
        """As this binary spells it; [] where it has no such option and can do without."""
        for known in NAMES.get(name, [name]):
            if known is None:
                return []
            if known in self.help[verb]:
                return [known]
        raise SystemExit(f"{self.path} {verb} has no {name}")


def value(found, key, otherwise=None):
    return next((found[name] for name in KEYS.get(key, [key]) if name in found), otherwise)


def without_times(node):
    if isinstance(node, dict):
        return {key: without_times(child) for key, child in node.items() if not key.endswith("_s")}
    return [without_times(child) for child in node] if isinstance(node, list) else node


def hash_of_plan(path):
    text = json.dumps(without_times(json.loads(path.read_text())), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def small_sizes(binary, model):
    """Its usual batch, halved until a step is small; sequences are short."""
    sizes = {"batch": model["sizes"]["batch"]}
    if "sequence" in model["sizes"]:
        sizes["sequence"] = min(64, model["sizes"]["sequence"])
    while sizes["batch"] > 2 and not is_below(binary, model["name"], sizes, SMALL_BYTES):
        sizes["batch"] //= 2
    return sizes


def is_below(binary, model, sizes, most):
    setting = {"model": model, "sizes": sizes, "precision": "f32", "optimizer": "adam", "threads": 1}
    found = binary.json(["estimate", *model_arguments(setting), "--device", "none"])
    return found.get("peak_bytes", most + 1) <= most


def model_arguments(setting):
    arguments = [setting["model"], "--batch", str(setting["sizes"]["batch"]), "--threads", str(setting["threads"]),
                 "--optimizer", setting["optimizer"], "--precision", setting["precision"]]
    if "sequence" in setting["sizes"]:
        arguments += ["--seq", str(setting["sizes"]["sequence"])]
    return arguments


def form_arguments(binary, verb, form, folder):
    arguments = []
    for name in OPTIONS_OF_FORM[form]:
        arguments += binary.option(verb, name)
        if name == "--spill-dir":
            arguments.append(str(folder))
    return arguments


def between(least, most):
    """A budget that needs measures and is not the last that fits, in whole pages."""
    return (least + (most - least) // 3 + 4095) // 4096 * 4096


def record_plan(binary, setting, folder, budget):
    """The plan of the tensors alone, which does not depend on the process."""
    common = ["plan", *model_arguments(setting), *form_arguments(binary, "plan", setting["form"], folder)]
    common += [*binary.option("plan", "--time-limit"), "600"] if binary.option("plan", "--time-limit") else []
    if budget is None:
        refused = binary.json([*common, "--budget", "64KiB"])
        if "unplanned_bytes" not in refused:
            return {"failed": refused.get("failed", refused.get("error", "no refusal"))}
        least = value(refused, "smallest_bytes")
        budget = refused["unplanned_bytes"] if setting["form"] == "whole" else between(least, refused["unplanned_bytes"])
    path = pathlib.Path(folder) / "plan.json"
    made = binary.json([*common, "--budget", str(budget), "-o", str(path)])
    if not made.get("fits"):
        return {"budget_bytes": budget, "failed": made.get("failed", made.get("error", "does not fit"))}
    return {"budget_bytes": budget, "arena_bytes": made["arena_bytes"], "micro_batches": value(made, "micro_batches"),
            "plan_hash": hash_of_plan(path)}


def record_training(binary, setting, folder, budget):
    common = ["train", *model_arguments(setting), "--steps", str(STEPS), "--seed", "1"]
    if setting["form"] != "whole":
        common += ["--no-measure", *form_arguments(binary, "train", setting["form"], folder)]
        if budget is None:
            refused = binary.json([*common, "--budget", "1MiB"])
            least = value(refused, "smallest_budget_bytes")
            if least is None:
                return {"failed": refused.get("failed", refused.get("error", "no refusal"))}
            whole = binary.json([*common, "--budget", "8GiB"]).get("predicted_peak_bytes", least)
            budget = between(least + (4 << 20), max(whole, least + (8 << 20)))
        common += ["--budget", str(budget)]
    trained = binary.json(common)
    if "steps" not in trained:
        return {"budget_bytes": budget, "failed": trained.get("failed", trained.get("error", "does not fit"))}
    return {"budget_bytes": budget, "losses": [step["loss"] for step in trained["steps"]],
            "micro_batches": value(trained, "micro_batches", []), "arena_bytes": trained["arena_bytes"]}


def record_setting(binary, setting, like):
    older = like.get(key_of(setting), {})
    with tempfile.TemporaryDirectory(prefix="plimsoll-record-") as folder:
        return {"setting": setting,
                "plan": record_plan(binary, setting, folder, older.get("plan", {}).get("budget_bytes")),
                "train": record_training(binary, setting, folder, older.get("train", {}).get("budget_bytes"))}


def key_of(setting):
    sizes = " ".join(f"{name} {size}" for name, size in sorted(setting["sizes"].items()))
    return ", ".join([setting["model"], sizes, setting["precision"], setting["optimizer"], setting["form"],
                      f"{setting['threads']} threads"])


def settings_of(binary, arguments):
    models = binary.json(["models"])["models"]
    chosen = arguments.models.split(",") if arguments.models else [model["name"] for model in models]
    for model in models:
        if model["name"] not in chosen:
            continue
        sizes = small_sizes(binary, model)
        for precision, optimizer, form, threads in itertools.product(
                arguments.precisions.split(","), arguments.optimizers.split(","), arguments.forms.split(","),
                map(int, arguments.threads.split(","))):
            yield {"model": model["name"], "sizes": sizes, "precision": precision, "optimizer": optimizer,
                   "form": form, "threads": threads}


def record(arguments):
    path = pathlib.Path(arguments.file)
    done = json.loads(path.read_text()) if path.exists() else {}
    like = json.loads(pathlib.Path(arguments.like).read_text()) if arguments.like else {}
    with tempfile.TemporaryDirectory(prefix="plimsoll-cache-") as cache:
        binary = Binary(arguments.binary, arguments.cache or cache)
        for setting in settings_of(binary, arguments):
            key = key_of(setting)
            if key in done:
                continue
            print(key, file=sys.stderr, flush=True)
            done[key] = record_setting(binary, setting, like) if is_below(
                binary, setting["model"], setting["sizes"], MOST_BYTES) else {
                "setting": setting, "left_out": f"more than {MOST_BYTES} bytes"}
            path.write_text(json.dumps(done, indent=1) + "\n")
    print(f"{path}: {len(done)} settings")
    return 0


def differences(older, newer):
    for key in sorted(older.keys() | newer.keys()):
        if key not in older or key not in newer:
            yield f"{key}: only in the {'older' if key in older else 'newer'} record"
            continue
        for part in ("plan", "train"):
            was, now = older[key].get(part, {}), newer[key].get(part, {})
            for name in sorted(was.keys() | now.keys()):
                if was.get(name) != now.get(name):
                    yield f"{key}: {part}.{name} was {was.get(name)}, is {now.get(name)}"


def compare(arguments):
    older, newer = (json.loads(pathlib.Path(path).read_text()) for path in (arguments.older, arguments.newer))
    found = list(differences(older, newer))
    print("\n".join(found) or f"the same in all {len(older)} settings")
    return bool(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("file")
    recording.add_argument("--binary", default="build/release/cli/plimsoll")
    recording.add_argument("--like", help="a record whose budgets are taken")
    recording.add_argument("--cache", help="a folder for measured times, to be shared by the records")
    recording.add_argument("--models", help="names with commas; all when not given")
    recording.add_argument("--precisions", default="f32,bf16,f16")
    recording.add_argument("--optimizers", default="sgd,adam")
    recording.add_argument("--forms", default=",".join(FORMS))
    recording.add_argument("--threads", default="1,2")
    recording.set_defaults(run=record)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("older")
    comparing.add_argument("newer")
    comparing.set_defaults(run=compare)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
