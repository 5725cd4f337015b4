#!/usr/bin/env bash
# clang-tidy on the sources that changed: since this branch left origin/main, or on main itself those of the last
# commits, newest first. --all for all sources. Headers are checked through the sources that include them. It reads the
# compile commands of the tidy preset, and builds nothing but its precompiled headers.
set -euo pipefail
most=30 # files, so that a large landing does not take an hour

changed() {
  local base range=(-n 20)
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ]; then range=("$base..HEAD"); fi
  git log --no-merges "${range[@]}" --format= --name-only --diff-filter=d -- 'plimsoll/*.cc' 'cli/*.cc'
}

if [ "${1:-}" = --all ]; then
  mapfile -t files < <(git ls-files 'plimsoll/*.cc' 'cli/*.cc')
else
  mapfile -t files < <(changed | awk '!seen[$0]++' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done | head -n "$most")
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: nothing changed"; exit 0; }
tool=$(scripts/llvm14.sh clang-tidy) || { echo "tidy: not checked"; exit 0; }
cmake --preset tidy --log-level=WARNING >/dev/null
ninja -C build/tidy -t targets all | grep -oE '^[^ ]+cmake_pch\.hxx\.pch' | xargs ninja -C build/tidy --quiet
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 2 "$tool" -p build/tidy --quiet 2>/dev/null
echo "tidy: ${#files[@]} files clean"
