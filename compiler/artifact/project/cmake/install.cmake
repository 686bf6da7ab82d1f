# What programs need, in a separate prefix: find_package(flowloom) brings the target flowloom::flowloom
# and FLOWLOOM_WEIGHTS, the path of the weights; `pkg-config flowloom` says the same.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/flowloom")
set_target_properties(flowloom PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ${installed} EXPORT flowloom LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT flowloom NAMESPACE flowloom:: FILE flowloom-targets.cmake DESTINATION ${package})
file(GLOB headers include/flowloom/model.*)
install(FILES ${headers} DESTINATION include/flowloom)
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")  # the prefix may be moved
configure_file(cmake/flowloom.pc.in "${CMAKE_CURRENT_BINARY_DIR}/flowloom.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/flowloom.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES weights.bin DESTINATION share/flowloom)
set(weights share/flowloom/weights.bin)
configure_package_config_file(cmake/config.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/flowloom-config.cmake" INSTALL_DESTINATION ${package} PATH_VARS weights)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/flowloom-config-version.cmake"
  COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/flowloom-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/flowloom-config-version.cmake" DESTINATION ${package})
