# cmake -DFROM=folder -DTO=folder -P npm.cmake: installs the packages of FROM/package-lock.json into TO/node_modules.
# Nothing is done when they are there: several build configurations share TO.
file(MAKE_DIRECTORY ${TO})
file(SHA256 ${FROM}/package-lock.json wanted)
set(installed "")
if(EXISTS ${TO}/installed)
  file(READ ${TO}/installed installed)
endif()
if(installed STREQUAL wanted)
  return()
endif()
file(COPY ${FROM}/package.json ${FROM}/package-lock.json DESTINATION ${TO})
find_program(npm npm)
if(NOT npm)
  message(FATAL_ERROR "npm is not here, and the dashboard's charts (uPlot) come from it; install Debian's npm "
                      "(`tools/setup build` does), then build again.")
endif()
execute_process(COMMAND ${npm} ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
                WORKING_DIRECTORY ${TO} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "npm could not fetch what ${FROM}/package-lock.json names; is registry.npmjs.org to be reached "
                      "from here (or npm's `registry` setting right)? Once fetched it stays in npm's cache. npm said:\n${said}")
endif()
file(WRITE ${TO}/installed ${wanted})
