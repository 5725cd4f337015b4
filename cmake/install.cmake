# `cmake --install` puts the library, its headers, the binary and a package file where find_package(plimsoll) looks.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS plimsoll_lib plimsoll_uses EXPORT plimsoll ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS plimsoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plimsoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT plimsoll NAMESPACE plimsoll:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll
        FILE plimsoll-targets.cmake)

configure_package_config_file(cmake/plimsoll-config.cmake.in ${PROJECT_BINARY_DIR}/plimsoll-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plimsoll-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plimsoll-config.cmake ${PROJECT_BINARY_DIR}/plimsoll-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
