// Streaming calls in user code: executors that give items, and consumers that read them.
#include <utility>

#include "protocol/codec/codec.h"
#include "sim/process_role.h"
#include "sim/workload/user_code.h"

namespace mobula::internal::sim {
namespace {

constexpr std::int64_t item_bytes = 200'000;  // above the limit for values inside messages

}  // namespace

// ---- in executors -------------------------------------------------------------------------------

// Gives the items of the plan. Returns true after the last, false if the thread blocks. A write
// that has begun ends before the call notices its cancellation.
bool Thread::give_items() {
  const auto& items = process_.executor_core()->items();
  while (!error_ && (!cancelled_ || reserved_) && item_ < plan_.items) {
    const bool halfway = item_ == plan_.items / 2;
    if (halfway && run_.call.attempt < plan_.crashes) {
      process_.die({EndKind::signalled, 0, 11, process_.pid(), "it crashed", {}});
      return false;
    }
    if (halfway && throws_in(plan_, run_.call.attempt)) break;
    if (!items.is_needed(key_, item_)) {
      ++item_;
      continue;
    }
    const auto may_give = [this, &items] { return cancelled_ || items.has_space(key_, item_); };
    if (!may_give()) {
      block(may_give, true);
      return false;
    }
    if (!give_item()) return false;
    if (plan_.item_time > Duration(0)) {
      sleep(plan_.item_time);
      return false;
    }
  }
  if (!error_ && throws_in(plan_, run_.call.attempt)) fail(ErrorKind::task, "thrown on purpose");
  if (!error_ && cancelled_) fail(ErrorKind::task, "it noticed that it was cancelled");
  return true;
}

bool Thread::give_item() {
  ValueRecord value;
  const std::uint64_t number = item_number(plan_, item_);
  if (plan_.large && item_ % 2 == 0) {
    if (!store_item(item_id(run_.call.task, item_), number)) return false;
    if (error_) return true;
    value.in_store = true;
    value.size_bytes = item_bytes;
    value.location = process_.client().node();
  } else {
    value.bytes = Payload(encode(number));
    value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  }
  process_.outside().streams().given(process_, run_, item_);
  process_.step_executor(executor::ItemGiven{key_, item_, std::move(value), {}, {}});
  ++item_;
  return true;
}

// Writes an item to the store of the node. Returns false if the thread blocks.
bool Thread::store_item(ObjectId object, std::uint64_t number) {
  if (!std::exchange(reserved_, true)) {
    process_.step_client(
        client::ReserveSpace{object, item_bytes, run_.caller, run_.call.caller_node});
  }
  if (!written_) {
    const auto space = process_.reserved().find(object);
    if (space == process_.reserved().end()) {
      block([this, object] { return process_.reserved().contains(object); }, false);
      return false;
    }
    const client::SpaceReserved made = space->second;
    process_.reserved().erase(space);
    const bool is_there = made.failure && made.failure->code == ErrorCode::already_exists;
    if (made.failure && !is_there) {
      fail(ErrorKind::object_store_full, made.failure->text);
      return true;
    }
    written_ = true;
    if (!is_there) {
      process_.write(made.location, object, Payload(encode(number)));
      process_.step_client(client::ValueWritten{object, false, {}});
    }
  }
  if (!process_.sealed().contains(object)) {
    block([this, object] { return process_.sealed().contains(object); }, false);
    return false;
  }
  process_.sealed().erase(object);
  reserved_ = written_ = false;
  return true;
}

// ---- consumers ----------------------------------------------------------------------------------

// Reads a stream from the position of a var, or of the first ref inside the arguments. Stops after
// `step.number` items, if it is set.
bool Thread::read_stream(const Step& step) {
  if (!std::exchange(began_, true)) {
    taken_ = 0;
    if (step.var >= 0) {
      position_ = std::exchange(vars_.at(static_cast<std::size_t>(step.var)).object, {});
    } else if (!refs_.empty()) {
      position_ = refs_.front().object;
      process_.step_client(client::AdoptRef{refs_.front()});
    }
    if (step.tolerant && step.var >= 0) {  // the stream is read a second time later
      process_.step_client(client::RetainRef{position_});
      vars_.at(static_cast<std::size_t>(step.var)).object = position_;
    }
  }
  while (!position_.empty()) {
    if (!item_read_.empty() && !read_item()) return false;
    if (cancelled_ || (step.number > 0 && taken_ == step.number)) {
      end_reading();
      break;
    }
    if (!await(position_)) return false;
    if (cancelled_) continue;
    const Reading reading = process_.read(position_);
    process_.outside().streams().read(process_, position_, reading);
    if (reading.error || reading.contained.size() != 2 || process_.outside().over()) {
      end_reading();
      break;
    }
    process_.outside().streams().taken(process_, position_);
    process_.step_client(client::TakeItem{position_});
    if (reading.link) {
      process_.step_client(client::ItemRead{position_, reading.contained[1].object, *reading.link});
    }
    end_reading();
    item_read_ = reading.contained[0].object;
    position_ = reading.contained[1].object;
    ++taken_;
    if (plan_.item_time > Duration(0) && !is_stream()) {
      sleep(plan_.item_time);
      return false;
    }
  }
  return true;
}

// Waits for the object, which is wanted until it is read.
bool Thread::await(ObjectId object) {
  if (awaited_ != object) want(awaited_ = object);
  const auto settled = [this, object] { return cancelled_ || process_.client().settled(object); };
  if (settled()) return true;
  block(settled, true);
  return false;
}

bool Thread::read_item() {
  if (!await(item_read_)) return false;
  const ObjectId item = std::exchange(item_read_, {});
  if (!cancelled_) {
    const Reading reading = process_.read(item);
    process_.outside().checkers().value_read(process_, item, reading);
  }
  unwant(item);
  awaited_ = {};
  process_.step_client(client::ReleaseRef{item});
  return true;
}

void Thread::end_reading() {
  if (awaited_ == position_) {
    unwant(position_);
    awaited_ = {};
  }
  process_.step_client(client::ReleaseRef{std::exchange(position_, {})});
}

}  // namespace mobula::internal::sim
