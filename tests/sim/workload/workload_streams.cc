// Work about streaming calls: consumers in the caller and in other processes, slow and fast ones,
// consumers that stop, and executors that crash or throw halfway.
#include "sim/workload/author.h"

namespace mobula::internal::sim {

int Author::streaming_calls() {
  Plan producer = leaf();
  producer.name = "generator";
  producer.stream_window = static_cast<std::uint32_t>(random_.between(1, 5));
  producer.items = random_.chance(100) ? 0 : static_cast<std::uint64_t>(random_.between(1, 14));
  producer.large = random_.chance(250);
  if (random_.chance(400)) producer.item_time = random_.between(Duration(10us), Duration(20ms));
  if (producer.items > 0 && random_.chance(200)) {
    producer.throws = 1;
  } else if (random_.chance(300)) {
    producer.crashes = 1;
  }
  const bool by_actor = random_.chance(250);
  const bool cancels = random_.chance(150);
  producer.may_fail = cancels || (by_actor && producer.crashes > 0);
  if (by_actor) producer.shape = "zero";
  const int given = add(std::move(producer));

  Step read = on(Act::read_stream, -1);
  if (random_.chance(250)) read.number = static_cast<std::uint64_t>(random_.between(1, 6));
  Plan consumer = leaf();
  consumer.name = "consumer";
  consumer.steps.push_back(read);
  const int other = add(std::move(consumer));

  Plan main = item("streaming");
  int var = 0;
  if (by_actor) {
    Plan type = actor_class();
    type.max_restarts = -1;
    type.max_task_retries = -1;
    main.steps.push_back(make(add(std::move(type))));
    main.steps.push_back(call(0, given));
    var = 1;
  } else {
    main.steps.push_back(submit(given));
  }
  read.var = var;
  int vars = var + 1;
  if (random_.chance(300)) {
    // A second consumer in another process, and perhaps a third.
    const auto consumers = random_.between(1, 2);
    for (int i = 0; i < consumers; ++i) main.steps.push_back(submit(other, {value({var})}));
    for (int i = 0; i < consumers; ++i) main.steps.push_back(on(Act::get, vars + i));
    vars += static_cast<int>(consumers);
  }
  if (random_.chance(200)) {
    read.tolerant = true;
    main.steps.push_back(read);
    read.tolerant = false;
  }
  if (cancels) main.steps.push_back(on(Act::cancel, var));
  main.steps.push_back(random_.chance(100) ? on(Act::release, var) : read);
  return add(std::move(main));
}

// A stream that several other processes read at their own pace. Some stop early, and some crash.
// Sometimes the caller reads too.
int Author::shared_streams() {
  Plan producer = leaf();
  producer.name = "shared";
  producer.stream_window = static_cast<std::uint32_t>(random_.between(1, 6));
  producer.items = static_cast<std::uint64_t>(random_.between(8, 24));
  producer.large = random_.chance(200);
  if (random_.chance(200)) producer.crashes = 1;
  const int given = add(std::move(producer));

  Plan main = item("sharing");
  main.steps.push_back(submit(given));
  const auto consumers = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < consumers; ++i) {
    Plan consumer = leaf();
    consumer.name = "reader";
    consumer.shape = pick({"zero", "half_cpu", "cpu"});
    consumer.item_time =
        random_.chance(300) ? Duration(0) : random_.between(Duration(10us), Duration(30ms));
    if (random_.chance(200)) consumer.crashes = 1;
    Step read = on(Act::read_stream, -1);
    if (random_.chance(250)) read.number = static_cast<std::uint64_t>(random_.between(1, 12));
    consumer.steps.push_back(read);
    main.steps.push_back(submit(add(std::move(consumer)), {value({0})}));
  }
  const bool reads = random_.chance(500);
  if (reads) main.steps.push_back(on(Act::read_stream, 0));
  for (int i = 0; i < consumers; ++i) main.steps.push_back(on(Act::get, 1 + i));
  if (!reads && random_.chance(500)) main.steps.push_back(on(Act::read_stream, 0));
  return add(std::move(main));
}

}  // namespace mobula::internal::sim
