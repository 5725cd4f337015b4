#!/usr/bin/env bash
# Installs into a scratch folder, then builds and runs a program that finds the library there.
set -euo pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install build/release --prefix "$prefix/usr" >/dev/null
mkdir "$prefix/user"
cat >"$prefix/user/CMakeLists.txt" <<'TXT'
cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(plimsoll REQUIRED)
add_executable(user main.cc)
target_link_libraries(user plimsoll::plimsoll)
TXT
cat >"$prefix/user/main.cc" <<'TXT'
#include "plimsoll/base/spec.h"
int main() { return plimsoll::TensorSpec{plimsoll::DType::f32, {384, 192}}.bytes() == 294912 ? 0 : 1; }
TXT
cmake -S "$prefix/user" -B "$prefix/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix/usr" >/dev/null
cmake --build "$prefix/user/build" >/dev/null
"$prefix/user/build/user"
"$prefix/usr/bin/plimsoll" --version
