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

}  // namespace mobula::internal::sim
