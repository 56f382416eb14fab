# Generates protobuf-c code and a descriptor set for the messages of proto/, in the build folder.
#
# The C code is generated from modified copies. In the copies `string` is `bytes`, because a text may
# contain a zero byte; the encoding is the same. All messages are in one package `pb`, which avoids
# names such as Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor. Services are left out:
# no code is generated for them, and Envoy and Kuadrant have services of the same name.
find_program(PROTOC_C protoc-c REQUIRED)

function(weir_proto_copy from to)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  file(READ ${from} text)
  string(REGEX REPLACE "string ([a-z_]+ = )" "bytes \\1" text "${text}")
  string(REGEX REPLACE "package (envoy|google|grpc|kuadrant|weir\\.v1)[a-z0-9_.]*;" "package pb;" text "${text}")
  string(REGEX REPLACE "(envoy|google|grpc|kuadrant)\\.[a-z0-9_.]*\\.([A-Z])" "pb.\\2" text "${text}")
  string(REGEX REPLACE "\nservice [A-Za-z]+ {[^}]*}" "" text "${text}")
  string(REGEX REPLACE "\nimport \"kuadrant/[^;]*;" "" text "${text}") # only services use it
  file(CONFIGURE OUTPUT ${to} CONTENT "${text}" @ONLY)
endfunction()

# weir_proto(name FILES …): defines the target `name` with the code and its include path.
function(weir_proto name)
  cmake_parse_arguments(P "" "" "FILES" ${ARGN})
  set(copies ${CMAKE_CURRENT_BINARY_DIR}/proto)
  set(code ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(sources)
  set(headers)
  set(inputs)
  foreach(file ${P_FILES})
    weir_proto_copy(${PROJECT_SOURCE_DIR}/proto/${file} ${copies}/${file})
    string(REGEX REPLACE "\\.proto$" ".pb-c" base ${file})
    list(APPEND inputs ${copies}/${file})
    list(APPEND sources ${code}/${base}.c)
    list(APPEND headers ${code}/${base}.h)
  endforeach()
  file(MAKE_DIRECTORY ${code})
  add_custom_command(OUTPUT ${sources} ${headers}
    COMMAND ${PROTOC_C} -I${copies} --c_out=${code} ${P_FILES}
    DEPENDS ${inputs} VERBATIM)
  add_custom_target(${name}_headers DEPENDS ${headers})
  add_library(${name} OBJECT ${sources})
  # SYSTEM suppresses warnings in generated headers.
  target_include_directories(${name} SYSTEM PUBLIC ${code})
  target_link_libraries(${name} PUBLIC protobuf-c)
  add_dependencies(${name} ${name}_headers)
endfunction()

# weir_descriptors(source FILES …): writes a C file with the descriptor set of these files and their
# imports, as wr_descriptors and wr_descriptors_len.
function(weir_descriptors source)
  cmake_parse_arguments(D "" "" "FILES" ${ARGN})
  set(root ${PROJECT_SOURCE_DIR}/proto)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${root}/*.proto)
  add_custom_command(OUTPUT ${source}
    COMMAND ${PROTOC_C} -I${root} --include_imports --descriptor_set_out=${source}.bin ${D_FILES}
    COMMAND ${CMAKE_COMMAND} -DIN=${source}.bin -DOUT=${source} -DNAME=wr_descriptors
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${all} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    WORKING_DIRECTORY ${root} VERBATIM)
endfunction()
