/* The search field in the bar. Made here rather than by Dash, whose field is filled anew by the page while one types. */

export class Find {
  constructor(root) {
    const field = Object.assign(document.createElement('input'), { id: 'find', type: 'text', placeholder: root.title, autocomplete: 'off' });
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      document.dispatchEvent(new CustomEvent('cutaway:find', { detail: field.value.trim() }));
      field.blur();
    });
    root.prepend(field);
    this.field = field;
  }

  stop() { this.field.remove(); }
}
