/** What answers this page: the driver of jobs, or the history of jobs that have ended. */

let history = false;

export const isHistory = () => history;

export function setMode(features) {
  history = features["web-history"];
}
