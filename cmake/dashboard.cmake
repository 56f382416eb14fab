# All build configurations share this folder, so npm fetches the packages once.
set(WEIR_NPM ${CMAKE_BINARY_DIR}/npm CACHE PATH "Folder for the npm packages of the dashboard")

# weir_dashboard(out.c): writes the files of web/ and their libraries as C arrays.
function(weir_dashboard out)
  set(from ${PROJECT_SOURCE_DIR}/web)
  set(to ${CMAKE_BINARY_DIR}/web)
  set(uplot ${WEIR_NPM}/node_modules/uplot/dist)
  add_custom_command(
    OUTPUT ${uplot}/uPlot.esm.js ${uplot}/uPlot.min.css
    COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${WEIR_NPM} -P ${PROJECT_SOURCE_DIR}/cmake/npm.cmake
    DEPENDS ${from}/package.json ${from}/package-lock.json ${PROJECT_SOURCE_DIR}/cmake/npm.cmake
    COMMENT "Fetching uPlot for the dashboard" VERBATIM)
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
