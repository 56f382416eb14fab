# cmake -DFROM=folder -DTO=folder -P npm.cmake: installs the packages of FROM/package-lock.json into TO/node_modules.
# Does nothing if they are installed. Several build configurations share TO.
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
  message(FATAL_ERROR "npm is not installed. The build needs it to fetch uPlot for the dashboard. Install Debian's npm "
                      "with `tools/setup build`, then build again.")
endif()
execute_process(COMMAND ${npm} ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
                WORKING_DIRECTORY ${TO} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "npm could not fetch the packages of ${FROM}/package-lock.json. Check that registry.npmjs.org (or npm's "
                      "`registry` setting) is reachable. Fetched packages stay in npm's cache. Output of npm:\n${said}")
endif()
file(WRITE ${TO}/installed ${wanted})
