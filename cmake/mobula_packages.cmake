# `cpack --config build/release/CPackConfig.cmake` makes a Debian package and an archive of the same
# files.
install(FILES "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula-head.service"
              "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula-agent.service" "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula-autoscale.service" "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula.target"
        DESTINATION lib/systemd/system COMPONENT service)
install(FILES "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula.sysusers" DESTINATION lib/sysusers.d RENAME mobula.conf
        COMPONENT service)
install(FILES "${PROJECT_SOURCE_DIR}/deploy/systemd/mobula.tmpfiles" DESTINATION lib/tmpfiles.d RENAME mobula.conf
        COMPONENT service)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/deploy/prometheus" "${PROJECT_SOURCE_DIR}/deploy/grafana" "${PROJECT_SOURCE_DIR}/deploy/slurm" "${PROJECT_SOURCE_DIR}/deploy/kubernetes" "${PROJECT_SOURCE_DIR}/deploy/spot" "${PROJECT_SOURCE_DIR}/deploy/ssh"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/mobula" COMPONENT service USE_SOURCE_PERMISSIONS)

set(CPACK_PACKAGE_NAME mobula)
set(CPACK_PACKAGE_VENDOR "Mobula")
set(CPACK_PACKAGE_CONTACT "Mobula <mobula@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "A runtime for tasks and actors on clusters of GPU machines. It places them by their
 requests, such as GPUs and fractions of GPUs, and moves tensors between their processes.")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/mobula_package_kinds.cmake")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# dpkg-shlibdeps finds the shared libraries of the programs.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, openssh-client")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/deploy/debian/postinst"
    "${PROJECT_SOURCE_DIR}/deploy/debian/prerm" "${PROJECT_SOURCE_DIR}/deploy/debian/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
