// The collective groups that one process is a member of. Its door is opened for the first one. Any thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "collective/device_thread.h"
#include "collective/member.h"
#include "exchange/gpu_devices.h"

namespace mobula::internal::collective {

struct DeskOptions {
  DoorOptions door = {};
  // For communicators; without GPUs there are none.
  std::shared_ptr<exchange::GpuDevices> gpus = nullptr;
  std::string process = {};  // hexadecimal
  TurnsOfDevices turns = {};
  std::function<void(const std::string&)> lost = nullptr;  // this process has to be replaced, and why
};

class Desk {
 public:
  explicit Desk(DeskOptions options) : options_(std::move(options)) {}
  // Ends all groups.
  ~Desk();
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // From now on other members may connect; says where. already_exists for a name that another group here has,
  // invalid_argument for a reach that this process does not have, resource_exhausted for one group too many.
  Result<Meeting> join(Membership group);
  // not_found for a group that has been left since.
  Result<void> connect(const GroupId& group, std::vector<Meeting> meetings, Time deadline);
  // When all have connected, of a group with a communicator: all of them begin it together.
  Result<void> open(const GroupId& group, Time deadline);
  // Also of one that nobody has joined.
  void leave(const GroupId& group);

  // Null where there is none, or not all have connected yet.
  std::shared_ptr<Member> find(const GroupId& group) const;
  std::shared_ptr<Member> find(std::string_view name) const;
  // The version of NCCL here, where tensors lie on GPUs by now; empty: there is none.
  std::string library() const;
  // Whether it is one of the last that were left here.
  bool has_left(const GroupId& group) const;

 private:
  static constexpr std::size_t most_groups = 256;
  static constexpr std::size_t most_left = 64;
  Result<Door*> door() MOBULA_REQUIRES(mutex_);
  // With the devices open, and the mutex held.
  Result<DeviceSide> device_side(std::uint32_t lane) MOBULA_REQUIRES(mutex_);
  Result<std::shared_ptr<Member>> joined(const GroupId& group) const;

  const DeskOptions options_;
  mutable Mutex mutex_;
  std::unique_ptr<Door> door_ MOBULA_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::shared_ptr<DeviceThread>> threads_ MOBULA_GUARDED_BY(mutex_);  // by device; shared with the members
  // Shared with operations under way, which end when their group is left.
  std::map<GroupId, std::shared_ptr<Member>> members_ MOBULA_GUARDED_BY(mutex_);
  std::deque<GroupId> left_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::collective
