/* Asking the workbench's own server, and nobody else. */

/** An answer that was a refusal; the message is for the user. */
export class Refused extends Error {}

/** GET a path as JSON. Throws Refused with the server's words, or with "no answer" if it is gone. */
export async function ask(path, params = {}) {
  const query = new URLSearchParams(params).toString();
  let response;
  try {
    response = await fetch(query ? `${path}?${query}` : path);
  } catch {
    throw new Refused('');  // offline: whoever shows it has better words
  }
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(said.error || said.detail?.[0]?.msg || `status ${response.status}`);
  return said;
}
