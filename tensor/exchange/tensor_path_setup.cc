// Creation of the transports at start, with the reason for each missing transport.
#include "tensor/exchange/tensor_paths.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/logging/log.h"
#include "device/host_identity.h"
#include "tensor/exchange/device_endpoints.h"
#include "tensor/exchange/plugin_files.h"
#include "transport/tensor/gpu/cuda_ipc_transport.h"
#include "transport/tensor/plugin/plugin_transport.h"
#include "transport/tensor/shm/shm_transport.h"
#include "transport/tensor/tcp/tcp_transport.h"

namespace mobula::internal::exchange {
namespace {

Result<std::unique_ptr<TensorTransport>> make_shm(EventLoop& loop, const PathOptions& options,
                                                  std::shared_ptr<Arena>& arena) {
  if (options.socket.empty())
    return failure(ErrorCode::unavailable, "the process has no directory for its sockets");
  auto made = ShmTransport::create(loop, options.process, {.socket = options.socket});
  if (!made) return made.error();
  arena = (*made)->arena();
  return std::unique_ptr<TensorTransport>(std::move(*made));
}

// Chooses the listen address nearest to the GPUs of this process.
PathOptions near_gpus(PathOptions options) {
  if (!options.gpus || !options.may_choose || options.host_bind.empty()) return options;
  std::vector<std::string> bus_ids;
  for (const auto& each : options.gpus->devices()) {
    if (each.context) bus_ids.push_back(each.bus_id);
  }
  const std::string near = near_address(options.host_bind, options.gpus->locality(), bus_ids);
  if (near != options.host_bind)
    log_info("tensors are listened for at {}, which is nearer to this process's GPUs than {}", near,
             options.host_bind);
  options.host_bind = near;
  return options;
}

// CPUs near any of its GPUs; empty (any CPU) if the locality of one GPU is unknown.
CpuList near_cpus(const PathOptions& options) {
  std::set<unsigned> all;
  if (!options.gpus) return {};
  for (const auto& each : options.gpus->devices()) {
    if (each.context && each.cpus.empty()) return {};
    all.insert(each.cpus.begin(), each.cpus.end());
  }
  return {all.begin(), all.end()};
}

Result<std::unique_ptr<TensorTransport>> make_tcp(EventLoop& loop, const PathOptions& options) {
  TcpOptions tcp;
  if (!options.host_bind.empty()) tcp.listen = options.host_bind;
  tcp.cpus = near_cpus(options);
  auto made = TcpTransport::create(loop, options.process, tcp);
  if (!made) return made.error();
  return std::unique_ptr<TensorTransport>(std::move(*made));
}

}  // namespace

TensorPaths::TensorPaths(EventLoop& loop, PathOptions options)
    : loop_(loop), options_(near_gpus(std::move(options))) {
  reach_.machine =
      options_.own_host.empty() ? host_identity() : host_identity() + " " + options_.own_host;
  reach_.fabric = options_.fabric;
  add({DirectPath::shm, 0}, make_shm(loop, options_, arena_));
  add({DirectPath::tcp, 0}, make_tcp(loop, options_));
  reach_.paths.emplace_back().path = DirectPath::staged;
  add_devices();
  add_plugins();
}

TensorPaths::~TensorPaths() {
  if (!options_.gpus) return;
  for (std::uint32_t device_ordinal = 0; device_ordinal < options_.gpus->devices().size();
       ++device_ordinal)
    options_.gpus->on_closed(device_ordinal, nullptr);
}

void TensorPaths::add(Key key, Result<std::unique_ptr<TensorTransport>> made, std::string version) {
  RegionPath& said = reach_.paths.emplace_back();
  said.path = key.first;
  said.device_ordinal = key.second;
  if (!made) {
    said.why_not = made.error().text;
    return;
  }
  said.version = std::move(version);
  said.endpoint = (*made)->endpoint();
  transports_[key] = std::move(*made);
}

void TensorPaths::add_devices() {
  const auto none = [&](const std::string& why) {
    for (const auto path : {DirectPath::cuda_ipc, DirectPath::nccl})
      add({path, 0}, failure(ErrorCode::unavailable, why));
  };
  if (!options_.gpus) return none("it has no lease on a GPU");
  if (!options_.gpus->why_none().empty()) return none(options_.gpus->why_none());
  const auto& devices = options_.gpus->devices();
  for (std::uint32_t device_ordinal = 0; device_ordinal < devices.size(); ++device_ordinal) {
    const auto& device = devices[device_ordinal];
    reach_.devices.push_back(device.uuid);
    if (!device.context) continue;
    const ProcessId party = device_endpoint_id(options_.process, device_ordinal);
    CudaIpcOptions ipc;
    ipc.socket = options_.socket + ".g" + std::to_string(device_ordinal);
    ipc.peers = device.peers;
    ipc.copying.pinned = options_.gpus->staging();
    ipc.copying.cpus = device.cpus;
    auto made = options_.socket.empty()
                    ? Result<std::unique_ptr<CudaIpcTransport>>(failure(
                          ErrorCode::unavailable, "the process has no directory for its sockets"))
                    : CudaIpcTransport::create(loop_, party, device.context, std::move(ipc));
    if (made) {
      copies_[static_cast<int>(device_ordinal)] = &(*made)->copies();
      stages_[static_cast<int>(device_ordinal)] =
          std::make_unique<DeviceStage>(device.context, (*made)->copies());
      options_.gpus->on_closed(device_ordinal, (*made)->closed());
      add({DirectPath::cuda_ipc, device_ordinal},
          std::unique_ptr<TensorTransport>(std::move(*made)));
    } else {
      add({DirectPath::cuda_ipc, device_ordinal}, made.error());
    }
    const auto& library = options_.gpus->nccl();
    if (!library) {
      add({DirectPath::nccl, device_ordinal}, library.error());
      continue;
    }
    reach_.nccl_shares_gpu = (*library)->shares_gpu();
    NcclOptions nccl;
    if (!options_.host_bind.empty()) nccl.listen = options_.host_bind;
    const char* const host = std::getenv("NCCL_HOSTID");
    nccl.host = host != nullptr ? host : reach_.machine;
    nccl.lost = options_.lost;
    nccl.cpus = device.cpus;
    auto two_sided = NcclTransport::create(loop_, party, device.context, *library, std::move(nccl));
    if (two_sided) {
      add({DirectPath::nccl, device_ordinal},
          std::unique_ptr<TensorTransport>(std::move(*two_sided)),
          nccl_version_text((*library)->version()));
    } else {
      add({DirectPath::nccl, device_ordinal}, two_sided.error());
    }
  }
}

void TensorPaths::add_plugins() {
  std::map<DirectPath, Failure> refused;
  PluginOptions options;
  if (!options_.host_bind.empty())
    options.listen = options_.host_bind.substr(0, options_.host_bind.rfind(':'));
  for (const OpenedPlugin& each :
       open_transport_plugins(plugin_paths(options_.plugins), plugin_dir())) {
    if (!each.plugin) {
      log_warn("a transport plugin is not used: {}", each.plugin.error().text);
      if (const auto path = path_of_plugin(each.path)) refused.emplace(*path, each.plugin.error());
      continue;
    }
    const auto path = path_of_plugin(each.plugin->name());
    if (!path || transports_.contains({*path, 0})) {
      log_warn(
          "the transport plugin {} is not used: it is called {}, and programs can name gloo, ucx "
          "and nixl",
          each.path, each.plugin->name());
      continue;
    }
    auto made = PluginTransport::create(loop_, options_.process, *each.plugin, options);
    if (!made) log_warn("the transport plugin {} is not used: {}", each.path, made.error().text);
    add({*path, 0}, made ? Result<std::unique_ptr<TensorTransport>>(
                               std::unique_ptr<TensorTransport>(std::move(*made)))
                         : Result<std::unique_ptr<TensorTransport>>(made.error()));
  }
  for (const auto path : {DirectPath::gloo, DirectPath::ucx, DirectPath::nixl}) {
    const bool said = std::ranges::any_of(
        reach_.paths, [&](const RegionPath& each) { return each.path == path; });
    if (said) continue;
    if (const auto why = refused.find(path); why != refused.end()) {
      add({path, 0}, why->second);
    } else if (::access((plugin_dir() + "/" + plugin_file(path)).c_str(), R_OK) == 0) {
      // Advertised without an address; the first transfer that names it opens the plugin.
      reach_.paths.emplace_back().path = path;
      installed_.insert(path);
    } else {
      add({path, 0}, failure(ErrorCode::not_found, plugin_file(path) + " is not in " +
                                                       plugin_dir() + "; " + plugin_remedy(path)));
    }
  }
}

bool TensorPaths::open_installed(DirectPath path) {
  if (installed_.erase(path) == 0) return false;
  std::erase_if(reach_.paths, [&](const RegionPath& each) { return each.path == path; });
  const std::string name(to_string(path));
  const auto opened = open_transport_plugins(plugin_paths(name), plugin_dir());
  if (!opened.front().plugin) {
    add({path, 0}, failure(opened.front().plugin.error().code,
                           opened.front().plugin.error().text + "; " + plugin_remedy(path)));
    return true;
  }
  PluginOptions options;
  if (!options_.host_bind.empty())
    options.listen = options_.host_bind.substr(0, options_.host_bind.rfind(':'));
  auto made = PluginTransport::create(loop_, options_.process, *opened.front().plugin, options);
  add({path, 0}, made ? Result<std::unique_ptr<TensorTransport>>(
                            std::unique_ptr<TensorTransport>(std::move(*made)))
                      : Result<std::unique_ptr<TensorTransport>>(made.error()));
  return true;
}

}  // namespace mobula::internal::exchange
