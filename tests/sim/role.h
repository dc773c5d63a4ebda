// One simulated process: what all of them have in common. It takes its inputs one at a time, can stand
// still (a pause: inputs wait, timers do not fire) and can die (everything it would have done is gone).
// Roles stay in memory until the end of the history, so that actions may refer to them; after their
// death they do nothing. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/time.h"
#include "sim/kernel.h"

namespace mobula::internal::sim {

class World;

class Role {
 public:
  Role(World& world, std::string name, int host);
  virtual ~Role() = default;
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t number() const { return number_; }
  int host() const { return host_; }  // 0: the head's machine; 1..: nodes
  bool alive() const { return alive_; }
  bool paused() const { return paused_since_.has_value(); }

  // Takes an input: now, or when the role wakes up. Nothing if it is dead.
  void receive(Kernel::Action input);
  void pause(Duration span);
  // Its memory is gone; derived roles tell the world what that means for others.
  void end() { alive_ = false; }

  // Sets the timer to the core's next deadline. After every step.
  void arm();

 protected:
  World& world() { return world_; }
  virtual std::optional<Time> deadline() const = 0;
  virtual void tick() = 0;
  // It stood still for `gap`: told before the inputs that waited.
  virtual void woke(Duration gap) = 0;

 private:
  World& world_;
  std::string name_;
  std::uint64_t number_;
  int host_;
  bool alive_ = true;
  std::optional<Time> paused_since_;
  std::deque<Kernel::Action> waiting_;
  std::optional<Time> armed_;
};

}  // namespace mobula::internal::sim
