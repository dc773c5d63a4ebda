// Transfers through the library of a transport plugin (mobula/transport_plugin.h), which is opened
// at run time. One lane serves all peers. Bytes are not encrypted, so it requires trusted fabrics.
// Reasons: decision 28.
// Thread: the event loop. See tensor_transport.h for the guarantees.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mobula/transport_plugin.h"
#include "transport/tensor/lane_transport.h"

namespace mobula::internal {

// A validated shared object. It is never unloaded, because its threads may outlive its users.
class TransportPlugin {
 public:
  // Errors: not_found if the file or one of its libraries is missing, invalid_argument if it is not
  // a complete plugin, permission_denied for an unsupported version.
  static Result<TransportPlugin> open(const std::string& path);
  const mobula_transport_plugin& table() const { return *table_; }
  std::string_view name() const { return table_->name; }

 private:
  explicit TransportPlugin(const mobula_transport_plugin* table) : table_(table) {}
  const mobula_transport_plugin* table_;
};

// Result for one entry of MOBULA_TRANSPORT_PLUGINS.
struct OpenedPlugin {
  std::string path;
  Result<TransportPlugin> plugin;
};
// Opens the entries of "path:path". The second plugin with the same name is rejected. A path
// without a slash is searched in `directory`, then in the search path of the system.
std::vector<OpenedPlugin> open_transport_plugins(std::string_view paths,
                                                 const std::string& directory);

struct PluginOptions {
  std::string listen = "127.0.0.1";  // address of this machine for peers
  DirectLimits limits = {};
};

class PluginTransport final : public LaneTransport {
 public:
  // Creates a carrier once and destroys it again.
  static Availability probe(const TransportPlugin& plugin, const PluginOptions& options = {});
  // Errors: unavailable, with the reason of the plugin.
  static Result<std::unique_ptr<PluginTransport>> create(EventLoop& loop, ProcessId process,
                                                         const TransportPlugin& plugin,
                                                         const PluginOptions& options = {});
  ~PluginTransport() override { end_lanes(); }

 private:
  using LaneTransport::LaneTransport;
  Result<std::string> address_in(std::span<const std::byte> endpoint,
                                 ProcessId expected) const override;
};

}  // namespace mobula::internal
