// The time axis of a waterfall: what happened is linear; what is still to come has a scale of its own beside it.

const PAST_SHARE = 68;
const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
];

/**
 * from, now: epoch milliseconds; ahead: the times still to come. They get a part of the width, in which each is as far
 * from the next, so that attempts in seconds and the last one in a day can all be seen.
 */
export function makeAxis({ from, now, ahead }) {
  const past = Math.max(now - from, 1);
  const stops = [now, ...[...new Set(ahead)].filter((at) => at > now + 1).sort((one, other) => one - other)];
  const share = stops.length > 1 ? PAST_SHARE : 100;
  const place = (at) => {
    if (at <= now || share === 100) return Math.min(1, Math.max(0, (at - from) / past)) * share;
    const next = stops.findIndex((one) => one >= at);
    const stop = next < 0 ? stops.length - 1 : next - 1 + (at - stops[next - 1]) / (stops[next] - stops[next - 1]);
    return share + (stop / (stops.length - 1)) * (100 - share);
  };
  return { from, now, until: stops.at(-1), share, place, ticks: ticksOf(from, now, past) };
}

function ticksOf(from, now, past) {
  const step = (STEPS.find((one) => past / 1000 / one <= 5) ?? Math.ceil(past / 5 / 86_400_000) * 86_400) * 1000;
  const ticks = [];
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= now && ticks.length < 12; at += step)
    ticks.push(at);
  return past < 1000 ? [] : ticks;
}
