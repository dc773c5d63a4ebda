// Registry of the collective groups that this process is a member of. The first group opens its
// acceptor.
// Thread: any.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "device/gpu/gpu_devices.h"
#include "tensor/collective/device_thread.h"
#include "tensor/collective/member.h"

namespace mobula::internal::collective {

struct GroupRegistryOptions {
  AcceptorOptions acceptor = {};
  // For communicators; null without GPUs.
  std::shared_ptr<exchange::GpuDevices> gpus = nullptr;
  std::string process = {};  // hexadecimal
  TurnsOfDevices turns = {};
  // called with the reason when this process must be replaced
  std::function<void(const std::string&)> lost = nullptr;
};

class GroupRegistry {
 public:
  explicit GroupRegistry(GroupRegistryOptions options) : options_(std::move(options)) {}
  // Leaves all groups.
  ~GroupRegistry();
  GroupRegistry(const GroupRegistry&) = delete;
  GroupRegistry& operator=(const GroupRegistry&) = delete;

  // Registers a group, so that other members can connect, and returns the endpoint of this member.
  // Fails with already_exists for a name in use here, invalid_argument for a transport that this
  // process lacks, and resource_exhausted above the limit on groups.
  Result<MemberEndpoint> join(Membership group);
  // Fails with not_found if the group was left in the meantime.
  Result<void> connect(const GroupId& group, std::vector<MemberEndpoint> endpoints, Time deadline);
  // Begins the communicator together with all members, after all have connected.
  Result<void> open(const GroupId& group, Time deadline);
  // Leaves a group; no effect if this process has not joined it.
  void leave(const GroupId& group);

  // Null if the group is unknown, or not all members have connected.
  std::shared_ptr<Member> find(const GroupId& group) const;
  std::shared_ptr<Member> find(std::string_view name) const;
  // Version of NCCL if the GPUs of this process are open; otherwise empty.
  std::string library() const;
  // True if this process's part of a communicator accepts another rank on its GPU. False for an
  // unknown group, and for one without a communicator.
  bool shares_gpu(const GroupId& group) const;
  // True if the group is among the most recently left ones.
  bool has_left(const GroupId& group) const;

 private:
  static constexpr std::size_t most_groups = 256;
  static constexpr std::size_t most_left = 64;
  Result<Acceptor*> acceptor() MOBULA_REQUIRES(mutex_);
  Result<void> check_new(const Membership& group) const MOBULA_REQUIRES(mutex_);
  // Requires open devices.
  Result<DeviceSide> device_side(std::uint32_t device_ordinal) MOBULA_REQUIRES(mutex_);
  Result<std::shared_ptr<Member>> joined(const GroupId& group) const;

  const GroupRegistryOptions options_;
  mutable Mutex mutex_;
  std::unique_ptr<Acceptor> acceptor_ MOBULA_GUARDED_BY(mutex_);
  // by device; shared with the members
  std::map<std::uint32_t, std::shared_ptr<DeviceThread>> threads_ MOBULA_GUARDED_BY(mutex_);
  // Shared with operations in progress, which end when their group is left.
  std::map<GroupId, std::shared_ptr<Member>> members_ MOBULA_GUARDED_BY(mutex_);
  std::deque<GroupId> left_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::collective
