// A simulated process, the base of all roles. It handles one input at a time. It can pause (inputs
// wait, timers do not fire), starve of CPU (it handles them in bursts), and die (pending actions
// are dropped). A role stays in memory until the history ends, so that actions may refer to it.
// Thread: the simulator's only thread.
#pragma once

#include <cstddef>
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
  int host() const { return host_; }  // 0: the head's machine; 1 and up: nodes
  bool alive() const { return alive_; }
  bool paused() const { return paused_since_.has_value(); }

  // Handles an input now, or after the pause. A dead role ignores it.
  void receive(Kernel::Action input);
  void pause(Duration span);
  // For `span`, handles at most `batch` inputs and then the timers once per `interval`. An interval
  // is below the gap that the event loop reports, so the core is not notified.
  void starve(Duration span, Duration interval, std::size_t batch);
  // Marks the role dead. Derived roles report the effects to the world.
  void end() { alive_ = false; }

  // Sets the timer to the core's next deadline. Called after every step.
  void arm();

 protected:
  World& world() { return world_; }
  virtual std::optional<Time> deadline() const = 0;
  virtual void tick() = 0;
  // Called after a pause of `gap`, before the deferred inputs.
  virtual void woke(Duration gap) = 0;

 private:
  void run_starved(Time until, Duration interval, std::size_t batch);
  void run_deferred(std::size_t batch);

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
