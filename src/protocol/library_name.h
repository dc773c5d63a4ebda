// By which name programs look for a shared library, which is seldom that of its file: a program that is linked with
// libone.so.1.2.3 wants libone.so.1. Reads the file; any thread.
#pragma once

#include <string>

namespace mobula::internal {

// DT_SONAME of an ELF file of this machine's kind (elf(5)); empty where it has none, or is no such file.
std::string library_name(const std::string& path);

}  // namespace mobula::internal
