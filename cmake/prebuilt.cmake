# The part of a wheel that is built, from a build folder that has it already: what cmake/install.cmake installs as the
# component "python", and nothing else.
foreach(file cli/plimsoll preload/libplimsoll_preload.so python/libplimsoll_simcuda.so)
  if(NOT EXISTS ${PLIMSOLL_PREBUILT}/${file})
    message(FATAL_ERROR "PLIMSOLL_PREBUILT is ${PLIMSOLL_PREBUILT}, which has no ${file}")
  endif()
  install(PROGRAMS ${PLIMSOLL_PREBUILT}/${file} DESTINATION plimsoll/bin COMPONENT python)
endforeach()
foreach(target plimsoll plimsoll_preload plimsoll_simcuda)  # that pyproject.toml asks for
  add_custom_target(${target})
endforeach()
