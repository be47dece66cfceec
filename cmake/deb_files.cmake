# Run by CPack on the staged tree of the Debian package: what Debian's policy wants, and the Python modules.
file(GLOB prefix ${CPACK_TEMPORARY_DIRECTORY}/usr)
set(doc ${prefix}/share/doc/corestack)
file(GLOB pages ${prefix}/share/man/man1/*.1)
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)

file(READ ${CPACK_CORESTACK_SOURCE}/LICENSE license)
string(REGEX REPLACE "^MIT License\n\n" "" license "${license}")
string(REGEX MATCH "Copyright[^\n]*" holder "${license}")
string(REGEX REPLACE "^Copyright[^\n]*\n\n" "" license "${license}")
string(REGEX REPLACE "\n$" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: corestack

Files: *
${holder}
License: Expat

License: Expat
 ${license}
")
file(REMOVE ${doc}/LICENSE)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH is taken
file(WRITE ${doc}/changelog "corestack (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${now}
")
execute_process(COMMAND gzip -9n ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)

set(python ${prefix}/lib/python3/dist-packages)
file(COPY ${CPACK_CORESTACK_SOURCE}/python/corestack DESTINATION ${python} PATTERN __pycache__ EXCLUDE)
file(COPY ${CPACK_CORESTACK_DECLARATIONS} DESTINATION ${python}/corestack)
file(CREATE_LINK ${CPACK_CORESTACK_LIBRARY} ${python}/corestack/libcorestack.so SYMBOLIC)
execute_process(COMMAND chmod -R u+rwX,go=rX ${prefix} COMMAND_ERROR_IS_FATAL ANY)
