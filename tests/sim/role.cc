#include "sim/role.h"

#include "sim/world.h"

namespace mobula::internal::sim {

Role::Role(World& world, std::string name, int host)
    : world_(world), name_(std::move(name)), number_(world.next_role()), host_(host) {}

void Role::receive(Kernel::Action input) {
  if (!alive_ || world_.over()) return;
  if (paused_since_) {
    waiting_.push_back(std::move(input));
    return;
  }
  input();
}

void Role::pause(Duration span) {
  if (!alive_ || paused_since_) return;
  paused_since_ = world_.now();
  world_.log(*this,
             [&] { return "pauses for " + std::to_string(span.count() / 1'000'000) + " ms"; });
  world_.kernel().after(span, [this] {
    if (!alive_ || world_.over()) return;
    const Duration gap = world_.now() - *paused_since_;
    paused_since_.reset();
    armed_.reset();
    world_.log(*this, [] { return std::string("wakes"); });
    woke(gap);
    run_deferred(waiting_.size());
  });
}

void Role::starve(Duration span, Duration interval, std::size_t batch) {
  if (!alive_ || paused_since_) return;
  world_.log(*this,
             [&] { return "is starved for " + std::to_string(span.count() / 1'000'000) + " ms"; });
  paused_since_ = world_.now();
  run_starved(world_.now() + span, interval, batch);
}

void Role::run_starved(Time until, Duration interval, std::size_t batch) {
  world_.kernel().after(interval, [this, until, interval, batch] {
    if (!alive_ || world_.over()) return;
    paused_since_.reset();
    armed_.reset();
    const bool last = world_.now() >= until;
    run_deferred(last ? waiting_.size() : batch);
    if (last || !alive_ || world_.over() || paused_since_) return;
    paused_since_ = world_.now();
    run_starved(until, interval, batch);
  });
}

// Inputs first, then timers, as in the event loop.
void Role::run_deferred(std::size_t batch) {
  auto inputs = std::exchange(waiting_, {});
  for (; batch > 0 && !inputs.empty() && alive_ && !world_.over(); --batch) {
    const auto input = std::move(inputs.front());
    inputs.pop_front();
    input();
  }
  waiting_ = std::move(inputs);
  if (!alive_ || world_.over()) return;
  tick();
  arm();
}

void Role::arm() {
  if (!alive_ || paused_since_) return;
  const auto due = deadline();
  if (!due) return;
  // Like timers of the shells, fires up to a millisecond late and never early.
  const Time at = std::max(*due, world_.now()) + world_.timer_jitter();
  if (armed_ && *armed_ <= at) return;
  armed_ = at;
  world_.kernel().at(at, [this, at] {
    if (!alive_ || paused_since_ || armed_ != at || world_.over()) return;
    armed_.reset();
    tick();
    arm();
  });
}

}  // namespace mobula::internal::sim
