#!/usr/bin/env bash
# clang-tidy on the sources that changed: since this branch left origin/main, or on main itself those of the last
# commits, newest first. --all for all sources. Headers are checked through the sources that include them. The library
# only: the verbs build with g++'s precompiled header, which clang cannot read.
set -euo pipefail
most=40 # files, so that a large landing does not take an hour

changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ]; then
    git diff --name-only --diff-filter=d "$base" -- 'plimsoll/*.cc'
  else
    git log --no-merges -n 20 --format= --name-only --diff-filter=d -- 'plimsoll/*.cc'
  fi
}

if [ "${1:-}" = --all ]; then
  mapfile -t files < <(git ls-files 'plimsoll/*.cc')
else
  mapfile -t files < <(changed | awk '!seen[$0]++' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done | head -n "$most")
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: nothing changed"; exit 0; }
# The compile commands are g++'s; clang does not know all of its warnings.
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 2 clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
echo "tidy: ${#files[@]} files clean"
