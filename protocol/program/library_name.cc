#include "protocol/program/library_name.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/fd.h"

namespace mobula::internal {
namespace {

constexpr std::size_t longest_name = 255;  // bytes of a file name
constexpr std::size_t most_entries = 4096;

template <class T>
bool read_at(int file, std::uint64_t offset, T& to) {
  return ::pread(file, &to, sizeof to, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(sizeof to);
}

// The file offset of the bytes that are mapped at this address.
std::optional<std::uint64_t> offset_of(const std::vector<ElfW(Phdr)>& segments,
                                       std::uint64_t address) {
  for (const auto& each : segments) {
    if (each.p_type != PT_LOAD || address < each.p_vaddr || address - each.p_vaddr >= each.p_filesz)
      continue;
    return each.p_offset + (address - each.p_vaddr);
  }
  return std::nullopt;
}

std::vector<ElfW(Phdr)> segments_of(int file) {
  ElfW(Ehdr) header{};
  constexpr unsigned char own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  const bool is_elf =
      read_at(file, 0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
      header.e_ident[EI_CLASS] == own_class && header.e_phentsize == sizeof(ElfW(Phdr));
  std::vector<ElfW(Phdr)> segments(is_elf && header.e_phnum <= most_entries ? header.e_phnum : 0);
  for (std::size_t at = 0; at < segments.size(); ++at) {
    if (!read_at(file, header.e_phoff + at * sizeof(ElfW(Phdr)), segments[at])) return {};
  }
  return segments;
}

}  // namespace

std::string library_name(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const auto segments = segments_of(file.get());
  std::optional<std::uint64_t> name;
  std::optional<std::uint64_t> names;
  for (const auto& each : segments) {
    if (each.p_type != PT_DYNAMIC) continue;
    ElfW(Dyn) entry{};
    for (std::size_t at = 0;
         at < most_entries && read_at(file.get(), each.p_offset + at * sizeof entry, entry); ++at) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
      if (entry.d_tag == DT_STRTAB) names = offset_of(segments, entry.d_un.d_ptr);
    }
  }
  if (!name || !names) return {};
  char text[longest_name + 1] = {};
  const ssize_t size = ::pread(file.get(), text, longest_name, static_cast<off_t>(*names + *name));
  return size > 0 ? std::string(text) : std::string();
}

}  // namespace mobula::internal
