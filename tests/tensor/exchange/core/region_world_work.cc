// Work of the simulated processes: objects, requests, and faults.
#include <algorithm>
#include <memory>
#include <utility>

#include "tensor/exchange/core/region_world.h"

namespace mobula::internal::transfer {

void RegionWorld::add_work() {
  Random work = random_.fork("work");
  std::vector<ObjectId> ids;
  for (int i = 0; i < plan_.objects; ++i) {
    Object object;
    object.id = ObjectId::of(static_cast<unsigned>(1000 + i));
    const int maker = plan_.pattern == Pattern::broadcast ? 1 : 1 + i % plan_.processes;
    object.maker = ProcessId::of(static_cast<unsigned>(maker));
    object.size_bytes = work.chance(100)   ? 0
                        : work.chance(500) ? work.below(1000)
                                           : work.below(600 << 10);
    if (plan_.pattern == Pattern::broadcast) object.size_bytes = 300 << 10;
    object.device = static_cast<std::uint32_t>(work.below(plan_.devices));
    ids.push_back(object.id);
    objects_.emplace(object.id, object);
    at_process(object.maker, 0ms, 1ms, [this, made = object](Process& process) {
      const auto id = made.id;
      std::vector<RegionCommand> out;
      process.exchange->register_tensor(now_, id, made.size_bytes, made.device, out);
      process.device_of[id] = made.device;
      process.published.insert(id);
      carry_out(process, std::move(out));
    });
  }
  const auto plan_read = [&](int reader, std::vector<std::size_t> which, Duration when) {
    for (const auto each : which) ++objects_.at(ids[each]).refs;
    const bool arguments = work.chance(500);
    at_process(ProcessId::of(static_cast<unsigned>(reader)), when, when,
               [this, which, arguments](Process& process) { pull(process.id, which, arguments); });
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const int maker = static_cast<int>(objects_.at(ids[i]).maker.bits().low);
    const auto when = work.between(2ms, plan_.idles ? 300ms : 40ms);
    switch (plan_.pattern) {
      case Pattern::ring: plan_read(1 + maker % plan_.processes, {i}, when); break;
      case Pattern::opposite:
        plan_read(maker % 2 == 1 ? std::min(maker + 1, plan_.processes) : maker - 1, {i}, when);
        break;
      case Pattern::all_to_all:
      case Pattern::broadcast:
        for (int reader = 1; reader <= plan_.processes; ++reader) {
          if (reader != maker)
            plan_read(reader, {i}, work.between(2ms, plan_.idles ? 300ms : 40ms));
        }
        break;
      case Pattern::random: {
        const auto reads = work.between(1, 4);
        for (std::int64_t k = 0; k < reads; ++k) {
          std::vector<std::size_t> which{i};
          while (work.chance(400)) which.push_back(work.below(ids.size()));
          const auto reader =
              1 + static_cast<int>(work.below(static_cast<std::uint64_t>(plan_.processes)));
          plan_read(reader, which, work.between(2ms, 200ms));
        }
      }
    }
  }
}

void RegionWorld::pull(ProcessId reader, const std::vector<std::size_t>& which, bool arguments) {
  auto& process = this->process(reader);
  std::vector<TensorRequest> together;
  std::uint64_t bytes = 0;
  for (const auto each : which) {
    auto& object = objects_.at(ObjectId::of(static_cast<unsigned>(1000 + each)));
    if (object.maker == reader || object.dropped) {
      ref_dropped(object);
      continue;
    }
    TensorRequest request;
    request.object = object.id;
    request.size_bytes = object.size_bytes;
    if (random_.chance(700)) request.holders = {object.maker};
    request.paths = plan_.paths;
    request.device_ordinal = static_cast<std::uint32_t>(random_.below(plan_.devices));
    if (mutation_.lanes_by_pull)
      request.device_ordinal = static_cast<std::uint32_t>(random_.below(1000));
    bytes += request.size_bytes;
    const bool in_parts = plan_.parts && request.size_bytes >= options_.redirect_from_bytes &&
                          (plan_.pattern == Pattern::broadcast || random_.chance(700));
    if (!in_parts) {
      together.push_back(std::move(request));
      continue;
    }
    request.keeps = !process.copies.contains(object.id) && random_.chance(900);
    if (request.keeps) process.copies[object.id].number = ++last_copy_;
    const auto order = order_of_parts(parts_of(object.size_bytes, options_.chunk_bytes), reader);
    object.refs += static_cast<int>(order.size()) - 1;
    for (const auto part : order) {
      request.part = part;
      together.push_back(request);
    }
  }
  if (together.empty()) return;
  process.largest_batch = std::max(process.largest_batch, bytes);
  std::vector<RegionCommand> out;
  const auto wishes = together;
  const auto pulls = process.exchange->pull(now_, std::move(together), arguments, out);
  if (!pulls) return violation("a wish is refused: " + pulls.error().text);
  for (std::size_t i = 0; i < pulls->size(); ++i) {
    process.wanted[(*pulls)[i]] = {
        wishes[i].object, wishes[i].device_ordinal % plan_.devices, false, wishes[i].part,
        wishes[i].keeps ? process.copies.at(wishes[i].object).number : 0};
    if (!plan_.impatient || !random_.chance(200)) continue;
    at_process(reader, 0ms, 60ms, [this, pull = (*pulls)[i]](Process& again) {
      const auto known = again.wanted.find(pull);
      if (known == again.wanted.end()) return;
      known->second.unwanted = true;
      std::vector<RegionCommand> commands;
      again.exchange->cancel(now_, pull, commands);
      carry_out(again, std::move(commands));
    });
  }
  carry_out(process, std::move(out));
}

void RegionWorld::add_faults() {
  Random faults = random_.fork("faults");
  const auto some_process = [&] {
    return ProcessId::of(
        static_cast<unsigned>(1 + faults.below(static_cast<std::uint64_t>(plan_.processes))));
  };
  const auto soon = [&] { return now_ + faults.between(2ms, 300ms); };
  if (plan_.crashes) {
    for (auto left = faults.between(1, 2); left > 0; --left) {
      at(soon(), [this, id = some_process()] { crash(id); });
    }
  }
  if (plan_.stops) {
    for (auto left = faults.between(1, 3); left > 0; --left) {
      const auto span = faults.chance(500) ? faults.between(1ms, 500ms) : faults.between(1s, 60s);
      at(soon(), [this, id = some_process(), span] {
        tell(id, "stops for " + std::to_string(span / 1ms) + " ms");
        process(id).stopped_until = now_ + span;
      });
    }
  }
  if (plan_.link_breaks) {
    for (auto left = faults.between(1, 3); left > 0; --left) {
      const auto a = some_process(), b = some_process();
      if (a != b) at(soon(), [this, a, b] { break_link(a, b); });
    }
  }
  if (plan_.impatient) {
    for (auto& [id, object] : objects_) {
      if (faults.chance(200)) at(soon(), [this, id = id] { drop(this->object(id)); });
      if (!faults.chance(200)) continue;
      at_process(object.maker, 2ms, 200ms, [this, id = id](Process& process) {
        std::vector<RegionCommand> out;
        process.exchange->evacuate(now_, id, out);
        carry_out(process, std::move(out));
      });
    }
  }
  at(now_ + 120s, [this] { quiet_ = true; });
}

}  // namespace mobula::internal::transfer
