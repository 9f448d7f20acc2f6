/** Figures as people read them. Times are the browser's local ones, watermarks in UTC as they are in programs. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const EVER = 9.2e18;

export const count = (number) => WHOLE.format(number);

/** A number that is not known of runs that their checkpoints alone tell of. */
export const known = (number) => (number < 0 ? "–" : count(number));

export const rate = (perSecond) => `${perSecond < 1_000_000 ? WHOLE.format(perSecond) : SHORT.format(perSecond)}/s`;

export const percent = (share) => `${Math.round(share * 100)} %`;

export function bytes(number) {
  if (number < 0) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(Math.floor(Math.log10(Math.max(number, 1)) / 3), units.length - 1);
  const value = number / 1000 ** step;
  return `${value.toFixed(step && value < 100 ? 1 : 0)} ${units[step]}`;
}

export function duration(ms) {
  if (ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const parts = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
  const first = parts.findIndex(([size]) => ms >= size);
  return parts
    .slice(first, first + 2)
    .map(([size, unit], index) => [Math.floor((index ? ms % parts[first][0] : ms) / size), unit])
    .filter(([value], index) => !index || value)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

export function time(ms) {
  if (ms === null || ms === undefined || ms <= 0) return "–";
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 19).replace("T", " ");
}

/** A watermark; small numbers are no dates but times of a program's own. */
export function watermark(ms) {
  if (ms === undefined || ms <= -EVER) return "none yet";
  if (ms >= EVER) return "end of input";
  if (Math.abs(ms) < 1e10) return count(ms);
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? count(ms) : at.toISOString().slice(0, 19).replace("T", " ");
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
