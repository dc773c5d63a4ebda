// The host of another language in this process, and the entries of its calls.
// Thread: any. The host is set once, before init.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <mobula/detail/registry.h>
#include <mobula/dynamic.h>

#include "base/result.h"

namespace mobula::internal::client {

// Null without a host. It exists until the process ends.
const dynamic::Host* language_host();

// Calls a hook of the host, if it is set. The failure names the hook, and has the text of the
// exception that left it.
Result<void> call_hook(const char* name, std::function<void()> dynamic::Host::*hook);

// The entries of untyped calls, which any number of arguments and results fits.
const detail::Entry& untyped_task();
const detail::Entry& untyped_constructor();
const detail::Entry& untyped_method();

// CallForm::types of an untyped call: a mark, the language of the caller, and its program.
const std::string& untyped_types();
// The same for a function of another program.
const std::string& neutral_types();
// The caller of an untyped call.
struct UntypedCaller {
  bool neutral = false;  // the call names a function of another program
  std::string_view language;
  std::string_view program;  // name of the executable
};
// Nothing for other calls.
std::optional<UntypedCaller> untyped_caller(std::string_view types);
// The name of the executable of this process.
std::string program_name();

// Identifies this build of the library.
std::string library_build();
// Variable of the executors of an interpreter program: library_build() of the driver.
inline constexpr const char* build_variable = "MOBULA_LIBRARY_BUILD";

}  // namespace mobula::internal::client
