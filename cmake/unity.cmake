# Several sources of a target compiled as one, which parses headers and instantiates templates once instead of once in
# each: PLIMSOLL_UNITY, for whole builds (./dev, CI). Off for work on a few files, and for clang-tidy.
#
# Sources that give the same name to something at the left margin (helpers in anonymous namespaces, mostly) go into
# different groups, so nobody need know of this when naming a function.
set(PLIMSOLL_UNITY_SOURCES 10)  # in a group, at most

# The names that a source declares at the left margin, as they are found in formatted code: types, functions, constants.
function(plimsoll_declared_names source result)
  file(STRINGS ${source} lines REGEX "^[a-zA-Z[]")
  set(names)
  foreach(line IN LISTS lines)
    if(line MATCHES "^(class|struct|enum|enum class|concept) ([a-zA-Z0-9_]+)")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(line MATCHES "[ *&]([a-zA-Z0-9_]+)(\\(| =|\\[|\\{)")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# Puts each source into the first group that has room and none of its names.
function(plimsoll_unity target)
  if(NOT PLIMSOLL_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(groups 0)
  foreach(source IN LISTS sources)
    plimsoll_declared_names(${source} names)
    set(group 0)
    while(group LESS groups)
      list(LENGTH sources_${group} count)
      set(shared ${names})
      list(FILTER shared INCLUDE REGEX "${pattern_${group}}")
      if(count LESS PLIMSOLL_UNITY_SOURCES AND NOT shared)
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
    list(JOIN names_${group} "|" pattern)
    set(pattern_${group} "^(${pattern})$")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
