"""What a timer sees as the watermark: that which a generator emitted behind the last record, and only then the final one."""
PER_RECORD = True
ORDER = "total"


def build(env, flink):
    class Itself(flink.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    class Remind(flink.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value - 7)
            ctx.timer_service().register_event_time_timer(value + 100)

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.timer_service().current_watermark())

    strategy = flink.per_record_watermarks(5).with_timestamp_assigner(Itself())
    return (env.from_collection([10, 20, 40]).assign_timestamps_and_watermarks(strategy)
            .key_by(lambda value: 0).process(Remind()))
