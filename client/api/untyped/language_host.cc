#include "client/api/untyped/language_host.h"

#include <errno.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include <mobula/errors.h>

namespace mobula {
namespace internal::client {
namespace {

using detail::Entry;
using detail::EntryKind;

constexpr std::string_view untyped_mark = "untyped ";
constexpr std::string_view neutral_mark = "neutral ";

// Process-wide by nature, as the registry is. Never destroyed: runners may use it until the end.
std::atomic<const dynamic::Host*> the_host{nullptr};

// One class for all actors of the host.
char host_class = 0;  // not const: linkers may fold equal constants

// The executor runs these calls by the host, which needs more than an Invocation.
detail::Outcome refuse(const detail::Invocation&) {
  detail::ErrorRecord record;
  record.kind = detail::ErrorKind::invalid_request;
  record.message = "running an untyped call: it needs the names of the call";
  return {.error = std::move(record)};
}

const Entry task_entry({EntryKind::task, "an untyped task", &refuse, Entry::any_number,
                        Entry::any_number});
const Entry constructor_entry({EntryKind::constructor, "an untyped constructor", &refuse,
                               Entry::any_number, 0, &host_class});
const Entry method_entry({EntryKind::method, "an untyped method", &refuse, Entry::any_number,
                          Entry::any_number, &host_class});

// The id that the linker gave the image that has `of_image`; empty without one.
std::string build_id(const void* of_image) {
  struct Search {
    std::uintptr_t address;
    std::string id;
  } search{reinterpret_cast<std::uintptr_t>(of_image), {}};
  const auto visit = [](dl_phdr_info* image, std::size_t, void* into) {
    auto& found = *static_cast<Search*>(into);
    bool is_here = false;
    for (int i = 0; i < image->dlpi_phnum; ++i) {
      const auto& segment = image->dlpi_phdr[i];
      const std::uintptr_t first = image->dlpi_addr + segment.p_vaddr;
      is_here |= segment.p_type == PT_LOAD && found.address >= first &&
                 found.address < first + segment.p_memsz;
    }
    if (!is_here) return 0;
    for (int i = 0; i < image->dlpi_phnum; ++i) {
      const auto& segment = image->dlpi_phdr[i];
      if (segment.p_type != PT_NOTE) continue;
      const char* at = reinterpret_cast<const char*>(image->dlpi_addr + segment.p_vaddr);
      const char* const end = at + segment.p_memsz;
      const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const char* const name = at + sizeof note;
        const char* const content = name + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            std::memcmp(name, "GNU", 4) == 0) {
          found.id.assign(content, note.n_descsz);
          return 1;
        }
        at = content + padded(note.n_descsz);
      }
    }
    return 1;
  };
  dl_iterate_phdr(visit, &search);
  return search.id;
}

std::string types_of_caller(std::string_view mark) {
  const dynamic::Host* const host = language_host();
  const bool has_name = host != nullptr && !host->language.empty();
  return std::string(mark) + (has_name ? host->language : "C++") + '\n' + program_name();
}

}  // namespace

const dynamic::Host* language_host() { return the_host.load(std::memory_order_acquire); }

Result<void> call_hook(const char* name, std::function<void()> dynamic::Host::*hook) {
  const dynamic::Host* const host = language_host();
  if (host == nullptr || !(host->*hook)) return {};
  try {
    (host->*hook)();
    return {};
  } catch (const std::exception& thrown) {
    return failure(ErrorCode::unavailable,
                   std::string("calling ") + name + " (language host): " + thrown.what());
  }
}

const Entry& untyped_task() { return task_entry; }
const Entry& untyped_constructor() { return constructor_entry; }
const Entry& untyped_method() { return method_entry; }

const std::string& untyped_types() {
  static const auto* const types = new std::string(types_of_caller(untyped_mark));
  return *types;
}

const std::string& neutral_types() {
  static const auto* const types = new std::string(types_of_caller(neutral_mark));
  return *types;
}

std::optional<UntypedCaller> untyped_caller(std::string_view types) {
  const bool neutral = types.starts_with(neutral_mark);
  if (!neutral && !types.starts_with(untyped_mark)) return std::nullopt;
  types.remove_prefix((neutral ? neutral_mark : untyped_mark).size());
  const auto end = std::min(types.find('\n'), types.size());
  return UntypedCaller{neutral, types.substr(0, end),
                       types.substr(std::min(end + 1, types.size()))};
}

std::string program_name() { return program_invocation_short_name; }

std::string library_build() {
  static const auto* const build = [] {
    const std::string id = build_id(&host_class);
    // Without an id of the linker, the address of the entries distinguishes most builds.
    auto state = detail::mix(detail::mix_start, id);
    if (id.empty())
      state = detail::mix(state, detail::Registry::instance().key_of(task_entry).offset);
    return new std::string(detail::hex({state, detail::dynamic_layout}));
  }();
  return *build;
}

}  // namespace internal::client

namespace detail {

void set_host(dynamic::Host host, std::uint64_t layout) {
  using internal::client::the_host;
  if (layout != dynamic_layout) {
    throw InvalidRequestError(
        "set_host: the binding was compiled with the headers of another build of Mobula; build "
        "both from one source");
  }
  if (!host.run) throw InvalidRequestError("set_host: the host has no function `run`");
  auto* const kept = new dynamic::Host(std::move(host));
  const dynamic::Host* none = nullptr;
  if (the_host.compare_exchange_strong(none, kept)) return;
  delete kept;
  throw InvalidRequestError("set_host: this process has a host already");
}

}  // namespace detail
}  // namespace mobula
