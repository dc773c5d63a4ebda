#include "tensor/collective/group_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/mutex.h"
#include "device/gpu/device_uuid.h"
#include "device/host_identity.h"
#include "tensor/exchange/plugin_files.h"
#include "transport/tensor/plugin/plugin_transport.h"

namespace mobula::internal::collective {

GroupRegistry::~GroupRegistry() {
  // Members first, because the acceptor refers to them.
  std::map<GroupId, std::shared_ptr<Member>> members;
  {
    const MutexLock lock(mutex_);
    members.swap(members_);
  }
  for (const auto& [id, member] : members) member->leave();
}

namespace {

// Opens the plugin on first use and never unloads it.
Result<TransportPlugin> plugin_of(Reach reach) {
  const DirectPath path = reach == Reach::gloo ? DirectPath::gloo : DirectPath::ucx;
  const std::string name(to_string(path));
  auto opened = open_transport_plugins(exchange::plugin_paths(name), exchange::plugin_dir());
  if (!opened.front().plugin) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: {}; {}", name, opened.front().plugin.error().text,
                               exchange::plugin_remedy(path)));
  }
  return opened[0].plugin;
}

}  // namespace

Result<Acceptor*> GroupRegistry::acceptor() {
  if (!acceptor_) {
    auto opened = Acceptor::open(options_.acceptor);
    if (!opened) return opened.error();
    acceptor_ = std::move(*opened);
  }
  return acceptor_.get();
}

Result<DeviceSide> GroupRegistry::device_side(std::uint32_t device_ordinal) {
  const auto refused = [](std::string why) {
    return failure(ErrorCode::invalid_argument, std::move(why));
  };
  if (!options_.gpus || !options_.turns.claim) {
    return refused("it has no lease on a GPU; its actor requests one with num_gpus");
  }
  if (!options_.gpus->why_none().empty()) return refused(options_.gpus->why_none());
  const auto& devices = options_.gpus->devices();
  if (device_ordinal >= devices.size() || !devices[device_ordinal].context) {
    return refused(fmt::format("it has no lease on a GPU of index {}", device_ordinal));
  }
  const auto& library = options_.gpus->nccl();
  if (!library) return refused(library.error().text);
  auto& thread = threads_[device_ordinal];
  if (!thread) {
    auto started = DeviceThread::start();
    if (!started) return started.error();
    thread = std::shared_ptr<DeviceThread>(std::move(*started));
  }
  return DeviceSide{.thread = thread,
                    .nccl = *library,
                    .context = devices[device_ordinal].context,
                    .device_ordinal = device_ordinal,
                    .turns = options_.turns,
                    .lost = options_.lost};
}

std::string GroupRegistry::library() const {
  if (!options_.gpus || !options_.turns.claim || !options_.gpus->is_open() ||
      !options_.gpus->nccl())
    return {};
  return nccl_version_text((*options_.gpus->nccl())->version());
}

bool GroupRegistry::shares_gpu(const GroupId& group) const {
  const auto member = joined(group);
  return member && (*member)->communication() == Communication::always &&
         (*options_.gpus->nccl())->shares_gpu();
}

Result<void> GroupRegistry::check_new(const Membership& group) const {
  if (group.size() == 0 || group.size() > max_members || group.rank >= group.size()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("a group has 1 to {} members", max_members));
  }
  for (const auto& [id, member] : members_) {
    if (id == group.id)
      return failure(ErrorCode::already_exists, "the actor is in the group twice");
    if (!group.name.empty() && member->group().name == group.name) {
      return failure(ErrorCode::already_exists,
                     fmt::format("the actor is in a group \"{}\" already; destroy that one first, "
                                 "or take another name",
                                 group.name));
    }
  }
  if (members_.size() >= most_groups) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("the actor is in {} groups, and may be in no more", most_groups));
  }
  return {};
}

Result<MemberEndpoint> GroupRegistry::join(Membership group) {
  // Can take a second and needs no lock.
  if (group.reach == Reach::nccl && options_.gpus) (void)options_.gpus->open();
  const MutexLock lock(mutex_);
  // Removes groups that can do nothing more.
  std::erase_if(members_, [](const auto& each) { return each.second->over(); });
  if (auto allowed = check_new(group); !allowed) return allowed.error();
  auto acceptor = this->acceptor();
  if (!acceptor) return acceptor.error();
  MemberEndpoint endpoint = (*acceptor)->endpoint();
  if (group.reach == Reach::shm && (endpoint.local.empty() || endpoint.machine.empty())) {
    return failure(ErrorCode::invalid_argument,
                   "the actor cannot share memory with other processes");
  }
  const GroupId id = group.id;
  const char* const host = std::getenv("NCCL_HOSTID");
  endpoint.process = options_.process;
  endpoint.nccl_host = host != nullptr ? host : exchange::host_identity();
  DeviceTerms devices;
  if (group.reach == Reach::nccl) {
    auto side = device_side(group.device);
    if (!side) return side.error();
    endpoint.device = to_string(side->context->uuid());
    endpoint.nccl_version = nccl_version_text(side->nccl->version());
    devices.communication = Communication::always;
    devices.side = std::move(*side);
  } else if (group.reach == Reach::any) {
    devices.communication = Communication::useful;
    devices.find = [this](std::uint32_t device_ordinal) {
      const MutexLock again(mutex_);
      return device_side(device_ordinal);
    };
  }
  const Reach reach = group.reach;
  const auto member =
      std::make_shared<Member>(**acceptor, std::move(group), PlanOptions{}, std::move(devices));
  if (reach == Reach::gloo || reach == Reach::ucx) {
    const auto plugin = plugin_of(reach);
    if (!plugin) return plugin.error();
    const std::string& bind = options_.acceptor.host_bind;
    auto carried = member->carry_by(plugin->table(),
                                    bind.empty() ? "127.0.0.1" : bind.substr(0, bind.rfind(':')));
    if (!carried) return failure(ErrorCode::invalid_argument, carried.error().text);
    endpoint.carrier = std::move(*carried);
  }
  members_.emplace(id, member);
  return endpoint;
}

Result<std::shared_ptr<Member>> GroupRegistry::joined(const GroupId& group) const {
  const MutexLock lock(mutex_);
  const auto at = members_.find(group);
  if (at == members_.end())
    return failure(ErrorCode::not_found,
                   "the actor has left the group, or restarted, since it joined");
  return at->second;
}

Result<void> GroupRegistry::connect(const GroupId& group, std::vector<MemberEndpoint> endpoints,
                                    Time deadline) {
  const auto member = joined(group);
  return member ? (*member)->connect(std::move(endpoints), deadline) : Result<void>(member.error());
}

Result<void> GroupRegistry::open(const GroupId& group, Time deadline) {
  const auto member = joined(group);
  if (!member) return member.error();
  if (auto refused = (*member)->open(deadline))
    return failure(ErrorCode::unavailable, refused->text);
  return {};
}

void GroupRegistry::leave(const GroupId& group) {
  std::shared_ptr<Member> member;
  {
    const MutexLock lock(mutex_);
    const auto at = members_.find(group);
    if (at == members_.end()) return;
    member = std::move(at->second);
    members_.erase(at);
    left_.push_back(group);
    if (left_.size() > most_left) left_.pop_front();
  }
  member->leave();
}

bool GroupRegistry::has_left(const GroupId& group) const {
  const MutexLock lock(mutex_);
  return std::ranges::find(left_, group) != left_.end();
}

std::shared_ptr<Member> GroupRegistry::find(const GroupId& group) const {
  const MutexLock lock(mutex_);
  const auto at = members_.find(group);
  return at != members_.end() && at->second->complete() ? at->second : nullptr;
}

std::shared_ptr<Member> GroupRegistry::find(std::string_view name) const {
  const MutexLock lock(mutex_);
  for (const auto& [id, member] : members_) {
    if (!name.empty() && member->group().name == name && member->complete()) return member;
  }
  return nullptr;
}

}  // namespace mobula::internal::collective
