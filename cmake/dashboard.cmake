# One folder for all build configurations, so that npm fetches once.
set(WEIR_NPM ${CMAKE_BINARY_DIR}/npm CACHE PATH "Where npm puts the libraries of the dashboard")

# weir_dashboard(out.c): web/ and the libraries it uses, as C.
function(weir_dashboard out)
  set(from ${PROJECT_SOURCE_DIR}/web)
  set(to ${CMAKE_BINARY_DIR}/web)
  set(uplot ${WEIR_NPM}/node_modules/uplot/dist)
  add_custom_command(
    OUTPUT ${uplot}/uPlot.esm.js ${uplot}/uPlot.min.css
    COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${WEIR_NPM} -P ${PROJECT_SOURCE_DIR}/cmake/npm.cmake
    DEPENDS ${from}/package.json ${from}/package-lock.json ${PROJECT_SOURCE_DIR}/cmake/npm.cmake
    COMMENT "Fetching the dashboard's charts" VERBATIM)
  file(GLOB paths CONFIGURE_DEPENDS ${from}/*.html ${from}/*.css ${from}/*.svg ${from}/*.js ${from}/views/*.js)
  set(files "uPlot.js=${uplot}/uPlot.esm.js" "uPlot.css=${uplot}/uPlot.min.css")
  foreach(path ${paths})
    file(RELATIVE_PATH name ${from} ${path})
    list(APPEND files "${name}=${path}")
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DTO=${to}/packed "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/web.cmake
    DEPENDS ${paths} ${uplot}/uPlot.esm.js ${uplot}/uPlot.min.css ${PROJECT_SOURCE_DIR}/cmake/web.cmake
    COMMENT "Packing the dashboard" VERBATIM)
endfunction()
