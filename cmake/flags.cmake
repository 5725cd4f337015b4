# Flags that every target of ours builds with: warnings are errors, sanitizers as asked.
add_library(plimsoll_flags INTERFACE)
target_compile_options(plimsoll_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlaps in std::string::insert that are not there (GCC bug 105651).
  target_compile_options(plimsoll_flags INTERFACE -Wno-restrict)
endif()

if(PLIMSOLL_SANITIZE)
  target_compile_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Its warnings that follow values through the code see ghosts in what sanitizers add: only the other builds heed it.
    target_compile_options(plimsoll_flags INTERFACE -w)
  endif()
endif()
if(PLIMSOLL_FUZZ)
  target_compile_options(plimsoll_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
