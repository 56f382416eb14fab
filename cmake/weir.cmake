# weir_layer(name SOURCES … USES …): one library per folder of src/. A layer can include files of include/weir
# and of the layers in USES. Each layer has a directory under build/arrows with one link to its folder, and
# only the directories of USES are in the include path.
function(weir_layer name)
  cmake_parse_arguments(L "" "" "SOURCES;USES;LINK" ${ARGN})
  set(arrow ${CMAKE_BINARY_DIR}/arrows/${name})
  file(MAKE_DIRECTORY ${arrow})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${arrow}/${name} SYMBOLIC)
  if(L_SOURCES)
    add_library(weir_${name} OBJECT ${L_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(weir_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(weir_${name} ${scope} ${arrow} ${PROJECT_SOURCE_DIR}/include)
  foreach(dep ${L_USES})
    target_link_libraries(weir_${name} ${scope} weir_${dep})
  endforeach()
  target_link_libraries(weir_${name} ${scope} ${L_LINK})
  set_property(GLOBAL APPEND PROPERTY WEIR_LAYERS weir_${name})
endfunction()

# A cmocka suite test/<path>/test_<x>.c. LABELS: `unit` runs in `make check` and `make test`, `full`
# only in `make test-full`. `threads` also runs with ThreadSanitizer, `slow` never runs with a
# sanitizer. PROCESSORS 2 is for suites with several busy processes or threads: on a machine with two
# cores ctest then runs no other suite at the same time.
function(weir_test name)
  cmake_parse_arguments(T "" "TIMEOUT;PROCESSORS" "SOURCES;LIBS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBS} cmocka Threads::Threads)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(WEIR_SANITIZE)
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  if(NOT T_PROCESSORS)
    set(T_PROCESSORS 1)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
                                          PROCESSORS ${T_PROCESSORS})
endfunction()

# weir_suites(serve SUITES net/stream user LIBS …): the suites test_serve_net_stream and test_serve_user, from
# net/test_stream.c and test_user.c. The other arguments are those of weir_test.
function(weir_suites layer)
  cmake_parse_arguments(S "" "" "SUITES;LIBS;LABELS;REST" ${ARGN})
  foreach(suite ${S_SUITES})
    string(REGEX REPLACE "([^/]+)$" "test_\\1.c" source ${suite})
    string(REPLACE "/" "_" name ${suite})
    weir_test(test_${layer}_${name} SOURCES ${source} LIBS ${S_LIBS} LABELS ${S_LABELS} ${S_REST})
  endforeach()
endfunction()

# Sources that several suites share. They are compiled once. A suite names the helper in its LIBS.
function(weir_test_helper name)
  cmake_parse_arguments(H "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} OBJECT ${H_SOURCES})
  target_link_libraries(${name} PUBLIC ${H_LIBS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test)
endfunction()

# Every .c file of a folder is a fuzz target that defines LLVMFuzzerTestOneInput. It is linked with an
# archive of all layers, so it may include a .c file of a layer. Only the fuzz configuration builds
# programs. In other configurations the target `extra` compiles the files, for warnings.
function(weir_fuzz_targets folder)
  add_custom_target(fuzz)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
  get_property(layers GLOBAL PROPERTY WEIR_LAYERS)
  if(NOT sources)
    return()
  endif()
  add_library(weir_fuzzed STATIC EXCLUDE_FROM_ALL)
  set_target_properties(weir_fuzzed PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(weir_fuzzed PUBLIC ${layers} Threads::Threads)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    if(WEIR_SANITIZE MATCHES fuzzer)
      add_executable(fuzz-${name} EXCLUDE_FROM_ALL ${source})
      set_target_properties(fuzz-${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                                    ${CMAKE_BINARY_DIR}/fuzz-targets)
      target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzz fuzz-${name})
    else()
      add_library(fuzz-${name} OBJECT EXCLUDE_FROM_ALL ${source})
      add_dependencies(extra fuzz-${name})
    endif()
    target_link_libraries(fuzz-${name} PRIVATE weir_fuzzed)
    target_compile_options(fuzz-${name} PRIVATE -Wno-missing-prototypes)
  endforeach()
endfunction()
