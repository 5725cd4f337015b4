# `cmake --install` puts the library, its headers, the binary and a package file where find_package(plimsoll) looks.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS plimsoll_lib plimsoll_uses EXPORT plimsoll ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS plimsoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Where plimsoll/base/companions.cc looks for them.
install(TARGETS plimsoll_preload plimsoll_simcuda LIBRARY DESTINATION lib/plimsoll)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/plimsoll DESTINATION share/plimsoll/python FILES_MATCHING PATTERN "*.py"
        PATTERN "*.json")

# The public headers: plimsoll/plimsoll.h and what it includes. No other header promises to stay.
function(collect_public_headers header)
  get_property(found GLOBAL PROPERTY plimsoll_public_headers)
  if(header IN_LIST found)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY plimsoll_public_headers ${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"plimsoll/")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" include ${include})
    collect_public_headers(${include})
  endforeach()
endfunction()
collect_public_headers(plimsoll/plimsoll.h)
get_property(public_headers GLOBAL PROPERTY plimsoll_public_headers)
foreach(header IN LISTS public_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
install(EXPORT plimsoll NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll
        FILE plimsoll-targets.cmake)

configure_package_config_file(cmake/plimsoll-config.cmake.in ${PROJECT_BINARY_DIR}/plimsoll-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plimsoll-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsoll-config.cmake ${PROJECT_BINARY_DIR}/plimsoll-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)

# In a wheel the binary and what it brings into other processes stand in the package's folder bin.
install(TARGETS plimsoll RUNTIME DESTINATION plimsoll/bin COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS plimsoll_preload plimsoll_simcuda LIBRARY DESTINATION plimsoll/bin COMPONENT python EXCLUDE_FROM_ALL)
