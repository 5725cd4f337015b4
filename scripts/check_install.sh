#!/usr/bin/env bash
# Installs into a scratch folder, then builds and runs programs that find the library there.
set -euo pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install build/release --prefix "$prefix/usr" >/dev/null
mkdir "$prefix/user"
cat >"$prefix/user/CMakeLists.txt" <<'TXT'
cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(plimsoll REQUIRED)
foreach(program own_model own_transformer)
  add_executable(${program} ${program}.cc)
  target_link_libraries(${program} plimsoll::plimsoll)
endforeach()
TXT
cp examples/own_model.cc examples/own_transformer.cc "$prefix/user"
headers=$(find "$prefix/usr/include" -name '*.h' | wc -l)
[ "$headers" -le 30 ] || { echo "$headers headers are installed, expected at most 30" >&2; exit 1; }
cmake -S "$prefix/user" -B "$prefix/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix/usr" >/dev/null
cmake --build "$prefix/user/build" >/dev/null
"$prefix/user/build/own_model"
"$prefix/user/build/own_model" 128MiB sim
"$prefix/user/build/own_transformer"
"$(dirname "$0")/check_symbols.sh" "$prefix/usr"
"$prefix/usr/bin/plimsoll" --version
grep -q train "$prefix/usr/share/bash-completion/completions/plimsoll"
grep -q "^.TH PLIMSOLL" "$prefix/usr/share/man/man1/plimsoll.1"
"$prefix/usr/bin/plimsoll" exec --pool -- true  # with the hook and the preload library that were installed
