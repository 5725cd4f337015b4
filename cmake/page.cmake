# The page of web/ as a source that is compiled in: TypeScript bundled by esbuild with D3's scales and axes. Both are
# packages of Debian; no node is needed. Without them the project builds, and --html says what is missing.
find_program(PLIMSOLL_ESBUILD esbuild)
find_path(PLIMSOLL_D3 d3-axis/package.json PATHS /usr/share/nodejs /usr/lib/nodejs NO_DEFAULT_PATH)
file(GLOB page_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*.ts)

function(plimsoll_page result)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/report)
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(bundle)
  if(PLIMSOLL_ESBUILD AND PLIMSOLL_D3)
    set(bundle ${folder}/page.js ${folder}/page.css)
    add_custom_command(
      OUTPUT ${bundle}
      COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${PLIMSOLL_D3} ${PLIMSOLL_ESBUILD} ${web}/main.ts --bundle --minify
              --target=es2020 --format=iife --log-level=warning --outfile=${folder}/page.js
      COMMAND ${PLIMSOLL_ESBUILD} ${web}/style.css --minify --log-level=warning --outfile=${folder}/page.css
      DEPENDS ${page_sources} ${web}/style.css
      COMMENT "bundling the page" VERBATIM)
  else()
    message(STATUS "no esbuild or no node-d3-axis: this build has no page, --html will say so")
  endif()
  add_custom_command(
    OUTPUT ${folder}/page_assets.cc
    COMMAND ${CMAKE_COMMAND} "-DBUNDLE=${bundle}" -DHEAD=${web}/head.html
            -DNOTICE=/usr/share/doc/node-d3-axis/copyright -DOUT=${folder}/page_assets.cc
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
    DEPENDS ${bundle} ${web}/head.html ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake VERBATIM)
  set(${result} ${folder}/page_assets.cc PARENT_SCOPE)
endfunction()
