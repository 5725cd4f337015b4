# Flags that every target of ours builds with: warnings are errors, sanitizers as asked.
add_library(plimsoll_flags INTERFACE)
target_compile_options(plimsoll_flags INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Warnings that follow values into the standard library: g++ 12 sees overlaps and overflows there that are not (GCC
  # bugs 105651, 105329), and with precompiled headers it no longer knows that library for one. clang and the
  # sanitizers stand in for them.
  target_compile_options(plimsoll_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                                  -Wno-stringop-overread -Wno-maybe-uninitialized)
endif()
if(PLIMSOLL_UNITY)
  # Sources that stand in one unit see each other's names: locals may have those of another's functions, and types
  # members of types in an anonymous namespace. clang knows shadowing as a whole only: builds by file look for that.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(plimsoll_flags INTERFACE -Wshadow=local -Wno-subobject-linkage)
  endif()
else()
  target_compile_options(plimsoll_flags INTERFACE -Wshadow)
endif()

# For code that need not be fast, tests and verbs: it compiles in half the time.
set(PLIMSOLL_QUICK_BUILD -O1)

if(PLIMSOLL_SANITIZE)
  set(PLIMSOLL_QUICK_BUILD -O0)
  target_compile_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
endif()
# For code that reads files: the fuzzer sees which branches an input takes. It costs time in every branch, so kernels,
# executors and tests do without.
add_library(plimsoll_fuzzed INTERFACE)
if(PLIMSOLL_FUZZ)
  target_compile_options(plimsoll_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()
