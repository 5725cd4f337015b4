# Several sources of a target compiled as one, which parses headers and instantiates templates once instead of once in
# each: PLIMSOLL_UNITY, for whole builds (./dev, CI). Off for work on a few files, and for clang-tidy.
#
# Sources that give the same name to different things at the left margin (helpers in anonymous namespaces, mostly) go
# into different groups, so nobody need know of this when naming a function. A source that must stand alone has the
# property SKIP_UNITY_BUILD_INCLUSION.
set(PLIMSOLL_UNITY_SOURCES 10)  # in a group, at most

# The types that a file declares at the left margin, and with FUNCTIONS also functions and constants, as they are found
# in formatted code. Appended to `result` as name@file.
function(plimsoll_declared_names file result)
  cmake_parse_arguments(PARSE_ARGV 2 with "FUNCTIONS" "" "")
  file(STRINGS ${file} lines REGEX "^[a-zA-Z[]")
  set(names ${${result}})
  foreach(line IN LISTS lines)
    if(line MATCHES "^(class|struct|enum|enum class|concept) ([a-zA-Z0-9_]+)")
      set(name ${CMAKE_MATCH_2})
      if(NOT line MATCHES ";$")  # else it is defined elsewhere
        list(APPEND names ${name}@${file})
      endif()
    elseif(with_FUNCTIONS AND line MATCHES "[ *&]([a-zA-Z0-9_]+)(\\(| =|\\[|\\{)")
      list(APPEND names ${CMAKE_MATCH_1}@${file})
    endif()
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# What a source and the headers beside it that it includes declare.
function(plimsoll_names_of source result)
  set(names)
  plimsoll_declared_names(${source} names FUNCTIONS)
  cmake_path(GET source PARENT_PATH folder)
  file(STRINGS ${source} includes REGEX "^#include \"")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" include "${include}")
    cmake_path(GET include FILENAME header)
    if(EXISTS ${folder}/${header})
      plimsoll_declared_names(${folder}/${header} names)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# Sets `result` to whether one of `names` is in `others` from another file.
function(plimsoll_names_clash names others result)
  set(${result} FALSE PARENT_SCOPE)
  set(bare ${others})
  list(TRANSFORM bare REPLACE "@.*" "")
  foreach(name IN LISTS names)
    string(REGEX REPLACE "@.*" "" bare_name ${name})
    if(bare_name IN_LIST bare AND NOT name IN_LIST others)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Puts each source into the first group that has room and none of its names.
function(plimsoll_unity target)
  if(NOT PLIMSOLL_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(groups 0)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source)
    plimsoll_names_of(${source} names)
    set(group 0)
    while(group LESS groups)
      list(LENGTH sources_${group} count)
      plimsoll_names_clash("${names}" "${names_${group}}" clash)
      if(count LESS PLIMSOLL_UNITY_SOURCES AND NOT clash)
        break()
      endif()
      math(EXPR group "${group} + 1")
    endwhile()
    if(group EQUAL groups)
      math(EXPR groups "${groups} + 1")
      set(names_${group})
    endif()
    list(APPEND sources_${group} ${source})
    list(APPEND names_${group} ${names})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# What nearly every source includes, parsed once for all targets that give the same `name`: a third of the time of a
# build. They must have the same flags and definitions.
function(plimsoll_shared_headers target name)
  get_property(first GLOBAL PROPERTY plimsoll_headers_${name})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY plimsoll_headers_${name} ${target})
    target_precompile_headers(${target} PRIVATE <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <span>
                                                <string> <unordered_map> <vector>)
  endif()
endfunction()
