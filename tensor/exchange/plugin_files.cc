#include "tensor/exchange/plugin_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "protocol/program/program_files.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::string_view file_begin = "mobula_transport_";
constexpr std::string_view file_end = ".so";

}  // namespace

std::string plugins_of_environment() {
  const char* const said = std::getenv(plugins_variable);
  return said == nullptr ? std::string() : said;
}

std::string plugin_paths(std::string_view words) {
  std::string paths;
  while (!words.empty()) {
    const std::size_t colon = std::min(words.find(':'), words.size());
    const std::string_view word = words.substr(0, colon);
    words.remove_prefix(std::min(colon + 1, words.size()));
    if (word.empty()) continue;
    if (!paths.empty()) paths += ':';
    const bool bare = word.find('/') == std::string_view::npos && !word.ends_with(file_end);
    paths += bare ? std::string(file_begin) + std::string(word) + std::string(file_end)
                  : std::string(word);
  }
  return paths;
}

// Searches next to the shared library, or next to the program if Mobula is linked statically:
// `lib/mobula`. A library that was shipped with a program has no such directory; the agent then
// names its own one in the environment.
std::string plugin_dir() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&plugin_paths), &here) == 0 ||
      here.dli_fname == nullptr)
    return ".";
  if (std::string beside = plugins_beside(here.dli_fname); !beside.empty()) return beside;
  if (const char* const of_node = std::getenv(plugin_dir_variable)) return of_node;
  // expected location
  return (std::filesystem::path(here.dli_fname).parent_path() / "mobula").string();
}

std::string plugin_file(DirectPath path) {
  return std::string(file_begin) + std::string(to_string(path)) + std::string(file_end);
}

std::string plugin_remedy(DirectPath path) {
  switch (path) {
    case DirectPath::gloo:
      return "install the package libgloo0; if Mobula was built without it, install libgloo-dev "
             "and build Mobula again";
    case DirectPath::ucx:
      return "install the package libucx0; if Mobula was built without it, install libucx-dev and "
             "build Mobula again";
    case DirectPath::nixl:
      return "install NIXL (package nixl-cu12 of PyPI) and build Mobula with "
             "-DMOBULA_NIXL_ROOT=DIR";
    default: return "build the plugin";
  }
}

std::optional<DirectPath> path_of_plugin(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  if (name.starts_with(file_begin)) name.remove_prefix(file_begin.size());
  if (name.ends_with(file_end)) name.remove_suffix(file_end.size());
  if (name == "gloo") return DirectPath::gloo;
  if (name == "ucx") return DirectPath::ucx;
  if (name == "nixl") return DirectPath::nixl;
  return std::nullopt;
}

}  // namespace mobula::internal::exchange
