// Transfers by a library that a plug-in brings (mobula/transport_plugin.h): opened at run time, one lane
// for all peers, plain bytes, so for trusted fabrics alone. See tensor_transport.h for what is promised,
// docs/decisions/0028-plugins-carry-messages-mobula-builds-transfers.md for why it is so.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mobula/transport_plugin.h"
#include "transport/direct/lane_transport.h"

namespace mobula::internal {

// A shared object that was found good. Never unloaded: its threads may outlive what used it.
class TransportPlugin {
 public:
  // not_found without such a file or a library that it needs, invalid_argument for one that is no
  // plug-in or has not what one needs, permission_denied for a version that this program does not speak.
  static Result<TransportPlugin> open(const std::string& path);
  const mobula_transport_plugin& table() const { return *table_; }
  std::string_view name() const { return table_->name; }

 private:
  explicit TransportPlugin(const mobula_transport_plugin* table) : table_(table) {}
  const mobula_transport_plugin* table_;
};

// What one word of MOBULA_TRANSPORT_PLUGINS came to.
struct OpenedPlugin {
  std::string path;
  Result<TransportPlugin> plugin;
};
// Of "path:path"; a name that comes twice is refused the second time. A path without a slash is looked
// for in `folder`, then where the system looks.
std::vector<OpenedPlugin> open_transport_plugins(std::string_view paths, const std::string& folder);

struct PluginOptions {
  std::string listen = "127.0.0.1";  // this machine's address for peers
  DirectLimits limits = {};
};

class PluginTransport final : public LaneTransport {
 public:
  // Opens the library once, and lets it go.
  static Availability probe(const TransportPlugin& plugin, const PluginOptions& options = {});
  // Fails with unavailable and the plug-in's reason.
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
