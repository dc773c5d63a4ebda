#include "transport/tensor/plugin/plugin_transport.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "transport/tensor/plugin/carrier_lane.h"

namespace mobula::internal {
namespace {

constexpr std::size_t max_name = 24;
constexpr std::uint64_t around_chunk = 256;  // bytes of a message without its chunk
constexpr std::uint64_t largest_chunk = 1u << 20;
constexpr std::size_t max_plugin_address = 2'048;

bool is_name(const char* name) {
  const std::string_view text =
      name == nullptr ? std::string_view() : std::string_view(name, ::strnlen(name, max_name + 1));
  return !text.empty() && text.size() <= max_name &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

Failure no_plugin(const std::string& path, const std::string& why) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{} is not a transport plugin of Mobula: {}", path, why));
}

Result<const mobula_transport_plugin*> checked(const std::string& path,
                                               const mobula_transport_plugin* table) {
  if (table == nullptr) return no_plugin(path, "it gives no table");
  if (table->version != MOBULA_TRANSPORT_PLUGIN_VERSION) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("{} is a transport plugin of version {}; this program speaks {}: "
                               "build it with this program's mobula/transport_plugin.h",
                               path, table->version, MOBULA_TRANSPORT_PLUGIN_VERSION));
  }
  if (table->size < sizeof(mobula_transport_plugin)) {
    return no_plugin(path, fmt::format("its table has {} bytes, and needs {}", table->size,
                                       sizeof(mobula_transport_plugin)));
  }
  if (!is_name(table->name)) return no_plugin(path, "its name is not 1 to 24 of a-z, 0-9 and _");
  if (table->max_message_bytes < MOBULA_TRANSPORT_LEAST_MESSAGE) {
    return no_plugin(path, fmt::format("its messages have {} bytes at most, and {} are needed",
                                       table->max_message_bytes, MOBULA_TRANSPORT_LEAST_MESSAGE));
  }
  const bool whole = table->create && table->destroy && table->descriptor && table->poll &&
                     table->endpoint && table->connect && table->send && table->drop;
  if (!whole) return no_plugin(path, "a function of its table is missing");
  return table;
}

}  // namespace

Result<TransportPlugin> TransportPlugin::open(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return failure(ErrorCode::not_found, fmt::format("open the transport plugin {}: {}", path,
                                                     why == nullptr ? "?" : why));
  }
  const auto entry = reinterpret_cast<decltype(&mobula_open_transport_plugin)>(
      ::dlsym(library, MOBULA_TRANSPORT_PLUGIN_ENTRY));
  if (entry == nullptr) return no_plugin(path, "it has no function " MOBULA_TRANSPORT_PLUGIN_ENTRY);
  try {
    const auto table = checked(path, entry());
    if (!table) return table.error();
    return TransportPlugin(*table);
  } catch (const std::exception& thrown) {
    return no_plugin(path, fmt::format("it threw: {}", thrown.what()));
  } catch (...) {
    return no_plugin(path, "it threw an object that is not a std::exception");
  }
}

std::vector<OpenedPlugin> open_transport_plugins(std::string_view paths,
                                                 const std::string& directory) {
  std::vector<OpenedPlugin> opened;
  while (!paths.empty()) {
    const std::size_t colon = std::min(paths.find(':'), paths.size());
    std::string path(paths.substr(0, colon));
    paths.remove_prefix(std::min(colon + 1, paths.size()));
    if (path.empty()) continue;
    const std::string beside = directory + "/" + path;
    if (path.find('/') == std::string::npos && ::access(beside.c_str(), R_OK) == 0) path = beside;
    auto plugin = TransportPlugin::open(path);
    const bool twice =
        plugin && std::any_of(opened.begin(), opened.end(), [&](const OpenedPlugin& each) {
          return each.plugin && each.plugin->name() == plugin->name();
        });
    if (twice) {
      plugin =
          failure(ErrorCode::already_exists,
                  fmt::format("{}: a transport plugin named '{}' is open", path, plugin->name()));
    }
    opened.push_back({std::move(path), std::move(plugin)});
  }
  return opened;
}

Availability PluginTransport::probe(const TransportPlugin& plugin, const PluginOptions& options) {
  TcpOffers none(options.limits);
  const auto lane = CarrierLane::start(none, plugin.table(), options.listen);
  if (!lane) return {false, lane.error().text};
  return {true, fmt::format("by a plugin, plain bytes from {}", options.listen)};
}

Result<std::unique_ptr<PluginTransport>> PluginTransport::create(EventLoop& loop, ProcessId process,
                                                                 const TransportPlugin& plugin,
                                                                 const PluginOptions& options) {
  LaneTransportOptions with;
  with.name = plugin.table().name;
  with.kind = DirectKind::plugin;
  with.cost = {150us, 8e8};
  with.plain = true;
  with.chunk_bytes = std::min(largest_chunk, plugin.table().max_message_bytes - around_chunk);
  with.limits = options.limits;
  std::unique_ptr<PluginTransport> made(new PluginTransport(loop, process, with));
  auto lane = CarrierLane::start(made->offers_, plugin.table(), options.listen);
  if (!lane) return lane.error();
  BlobWriter endpoint;
  put_direct_head(endpoint, DirectKind::plugin);
  endpoint.id(process).text(plugin.name()).text((*lane)->address());
  made->endpoint_ = endpoint.take();
  made->lanes_.push_back(std::move(lane).value());
  return made;
}

Result<std::string> PluginTransport::address_in(std::span<const std::byte> endpoint,
                                                ProcessId expected) const {
  BlobReader from(endpoint);
  if (auto good = take_direct_head(from, DirectKind::plugin, "an endpoint"); !good)
    return good.error();
  const auto holder = from.id<ProcessId>();
  const std::string plugin = from.text(max_name);
  std::string address = from.text(max_plugin_address);
  if (auto good = from.finish("an endpoint"); !good) return good.error();
  if (holder != expected) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: the endpoint of another process", name()));
  }
  if (plugin != name()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: the endpoint of the plugin '{}'", name(), plugin));
  }
  return address;
}

}  // namespace mobula::internal
