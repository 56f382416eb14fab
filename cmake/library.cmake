# libweir, shared and static, from the objects of its layers. Programs of this tree link
# weir::shared or weir::static; `weir` itself is the command's target.
set(layers ${WEIR_LIBRARY_LAYERS})
list(TRANSFORM layers PREPEND weir_)
foreach(layer ${layers})
  if(NOT TARGET ${layer})
    list(REMOVE_ITEM layers ${layer})
  endif()
endforeach()

# Libraries of the system that a layer links. A program that links libweir.a has to name them too.
set(private_libs)
foreach(layer ${layers})
  get_target_property(links ${layer} INTERFACE_LINK_LIBRARIES)
  list(APPEND private_libs ${links})
endforeach()
list(FILTER private_libs EXCLUDE REGEX "^(weir_|links-NOTFOUND)")
list(REMOVE_DUPLICATES private_libs)

add_library(weir_shared SHARED)
add_library(weir_static STATIC)
foreach(kind shared static)
  add_library(weir::${kind} ALIAS weir_${kind})
  set_target_properties(weir_${kind} PROPERTIES
    OUTPUT_NAME weir LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  foreach(layer ${layers})
    target_sources(weir_${kind} PRIVATE $<TARGET_OBJECTS:${layer}>)
  endforeach()
  target_include_directories(weir_${kind} INTERFACE ${PROJECT_SOURCE_DIR}/include)
endforeach()
target_link_libraries(weir_shared PRIVATE ${private_libs})
target_link_libraries(weir_static INTERFACE ${private_libs})
set_target_properties(weir_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
if(NOT WEIR_SANITIZE) # the runtime of a sanitizer is in the program, not in the library
  target_link_options(weir_shared PRIVATE -Wl,--no-undefined)
endif()

# weir.pc contains the linker flags of these libraries.
list(TRANSFORM private_libs PREPEND -l)
list(JOIN private_libs " " WEIR_PC_LIBS_PRIVATE)
configure_file(${PROJECT_SOURCE_DIR}/cmake/weir.pc.in weir.pc @ONLY)

install(TARGETS weir_shared weir_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weir
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
