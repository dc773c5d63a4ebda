// Reads the name that the dynamic loader uses for a shared library. It often differs from the file
// name: a program linked with libone.so.1.2.3 needs libone.so.1.
// Thread: any; reads the file.
#pragma once

#include <string>

namespace mobula::internal {

// DT_SONAME of an ELF file for this machine (elf(5)); empty if the file has none or is of another
// kind.
std::string library_name(const std::string& path);

}  // namespace mobula::internal
